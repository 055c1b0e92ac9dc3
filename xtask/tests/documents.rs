//! The paths that the documents at the root name in backticks exist.

use std::fs;
use std::path::Path;

const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];
const FOLDERS: &[&str] = &["crates/", "docs/", "xtask/"];

#[test]
fn every_path_a_document_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let file = root.join(document);
        if !file.exists() {
            continue;
        }
        let text = fs::read_to_string(file).expect("a document is UTF-8");
        for path in list_paths(&text) {
            if !root.join(path).exists() {
                missing.push(format!("{document} names {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn paths_are_read_from_backticks_and_nowhere_else() {
    let text = "\
`crates/engine/` and `xtask/src/main.rs:3`, or `docs/errors.md#codes`; not `cargo doc`, not crates/bare.
A pattern is not a path: `crates/*/src`, `crates/store-<name>`, `crates/…`.
A command that begins with one: `xtask/run --fast`.
```sh
ls `crates/in-a-block`
```
";
    assert_eq!(list_paths(text), ["crates/engine/", "xtask/src/main.rs", "docs/errors.md", "xtask/run"]);
}

/// The paths into [`FOLDERS`] between single backticks, outside code blocks, without line number or anchor.
fn list_paths(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut paths = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            paths.extend(line.split('`').skip(1).step_by(2).filter_map(read_path));
        }
    }
    paths
}

fn read_path(span: &str) -> Option<&str> {
    let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder));
    let is_pattern = span.contains(['*', '<', '{', '…']);
    let end = span.find([' ', ':', '#']).unwrap_or(span.len());
    (is_path && !is_pattern).then(|| &span[..end])
}
