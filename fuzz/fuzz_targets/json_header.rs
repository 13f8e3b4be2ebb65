#![no_main]

#[path = "../checks/remoting.rs"]
#[allow(dead_code)]
mod remoting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| remoting::json_header(data));
