//! The paths that the documents at the root name in backticks exist, and so do the bare file names of ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];
const FOLDERS: &[&str] = &["crates/", "docs/", "xtask/"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

#[test]
fn every_path_a_document_names_exists() {
    let root = root();
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

/// `guard.rs` in the row of a crate is a file of that crate, elsewhere of any crate; the name after
/// `::` is in it.
#[test]
fn every_file_that_the_architecture_names_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a document is UTF-8");
    let everything = list_sources(&root().join("crates"));
    let mut missing = Vec::new();
    let mut seen = 0;
    for (number, line) in text.lines().enumerate() {
        let home = line.strip_prefix("| ").and_then(find_crate);
        for span in line.split('`').skip(1).step_by(2) {
            let Some((name, item)) = read_file_name(span) else { continue };
            seen += 1;
            let is_named = |path: &&PathBuf| path.ends_with(name);
            let at_home = |path: &&PathBuf| home.is_none_or(|home| path.starts_with(root().join(home)));
            // A name with folders may point elsewhere.
            let is_at_home = |path: &&PathBuf| name.contains('/') || at_home(path);
            let has_item = |path: &&PathBuf| {
                let text = fs::read_to_string(path).unwrap_or_default();
                item.is_none_or(|item| text.contains(&format!("fn {item}")))
            };
            if !everything.iter().filter(is_named).filter(is_at_home).any(|path| has_item(&path)) {
                missing.push(format!("line {}: {span}", number + 1));
            }
        }
    }
    assert!(seen > 50, "only {seen} names were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn file_names_are_told_from_other_words() {
    assert_eq!(read_file_name("guard.rs"), Some(("guard.rs", None)));
    assert_eq!(read_file_name("inbound/act.rs:12"), Some(("inbound/act.rs", None)));
    assert_eq!(read_file_name("routes.rs::table"), Some(("routes.rs", Some("table"))));
    for other in ["crates/engine/src/limits.rs", "cargo xtask", "sql/", "model::CommitBuilder", "*.rs"] {
        assert_eq!(read_file_name(other), None, "{other}");
    }
    assert_eq!(find_crate("`crates/server` | `routes.rs` |"), Some("crates/server"));
    assert_eq!(find_crate("`crates/engine/src/model` | every rule |"), Some("crates/engine"));
    assert_eq!(find_crate("promise | a value |"), None);
}

/// The crate in the first cell of a row.
fn find_crate(row: &str) -> Option<&str> {
    let path = row.split(" | ").next()?.split('`').nth(1)?;
    let name = path.strip_prefix("crates/")?.split('/').next()?;
    Some(&path[.."crates/".len() + name.len()])
}

/// A source file named without its folder, and the name in it.
fn read_file_name(span: &str) -> Option<(&str, Option<&str>)> {
    let (name, item) = span.split_once("::").map_or((span, None), |(name, item)| (name, Some(item)));
    let name = name.split(':').next()?;
    let is_plain = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_/.-".contains(&letter));
    let is_bare = !FOLDERS.iter().any(|folder| name.starts_with(folder));
    (name.ends_with(".rs") && is_plain && is_bare).then_some((name, item))
}

fn list_sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder can be read").filter_map(Result::ok);
    let within = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => list_sources(&path),
        path => vec![path],
    });
    within.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
