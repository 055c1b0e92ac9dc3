//! The descriptors in the program match the files in `proto/`.

use std::path::Path;

/// The encoded set is checked in, so that a build needs no compiler of protocol buffers.
#[test]
fn the_descriptors_are_those_of_the_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/proto");
    let files = ["common", "entities", "json", "promise_service", "promises", "runs", "workers"];
    let files = files.map(|name| format!("hapax/v1/{name}.proto"));
    let all = std::fs::read_dir(folder.join("hapax/v1")).unwrap().count();
    assert_eq!(files.len(), all, "a file is missing in this list");
    let mut compiler = protox::Compiler::new([&folder]).unwrap();
    compiler.include_imports(true).include_source_info(false);
    let made = match compiler.open_files(files) {
        Ok(compiled) => compiled.encode_file_descriptor_set(),
        Err(error) => panic!("{error}"),
    };
    let path = folder.join("hapax.binpb");
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(
        kept == made,
        "the descriptors are not up to date: HAPAX_UPDATE=1 cargo test -p hapax-grpc descriptors"
    );
}
