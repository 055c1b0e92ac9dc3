//! The fixtures of the worker protocol, run against the core of the Rust SDK. See `sdk/fixtures/README.md`.

mod fixtures {
    pub mod json;
    pub mod runner;
    pub mod script;
}

use fixtures::runner::run_fixture;

/// Each file is a case of its own: the message names all that fail.
#[test]
fn every_fixture_of_the_worker_protocol_is_answered_as_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/fixtures");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(files.len() > 40, "{}", files.len());
    let mut failed = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        if let Err(why) = run_fixture(&text) {
            failed.push(format!("{}: {why}", file.file_stem().unwrap().to_string_lossy()));
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), files.len(), failed.join("\n"));
}
