#![no_main]

#[path = "../checks/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::register_body(data));
