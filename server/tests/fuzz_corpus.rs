//! Runs the checks of the fuzz targets on their corpora.

#[path = "../../fuzz/checks/bodies.rs"]
mod bodies;
#[path = "../../fuzz/checks/remoting.rs"]
mod remoting;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = format!("{}/../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut replayed = 0;
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        check(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        replayed += 1;
    }
    assert!(replayed > 0, "{folder} is empty");
}

#[test]
fn frame() {
    replay("frame", remoting::frame);
}

#[test]
fn json_header() {
    replay("json_header", remoting::json_header);
}

#[test]
fn binary_header() {
    replay("binary_header", remoting::binary_header);
}

#[test]
fn register_body() {
    replay("register_body", bodies::register_body);
}
