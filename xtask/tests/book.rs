//! The documentation as a book: its table of contents is complete, its links and anchors lead somewhere, its lines are short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest line of text, in characters. Rows of tables, code blocks, and lines that begin with code or are one word are exempt.
const MAX_LINE_CHARS: usize = 120;
/// Pages that tests of other crates generate.
const GENERATED: &[&str] = &["cli.md", "configuration.md", "errors.md"];
/// Pages at the root.
const AT_THE_ROOT: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages under docs, relative to it.
fn list_pages() -> BTreeSet<String> {
    let docs = root().join("docs");
    let mut folders = vec![docs.clone()];
    let mut pages = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("docs can be read").map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.insert(
                    path.strip_prefix(&docs).expect("it lies in docs").to_string_lossy().into_owned(),
                );
            }
        }
    }
    pages
}

#[test]
fn the_table_of_contents_lists_every_page_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed: Vec<String> = list_links(&summary).into_iter().map(|(_, target)| target).collect();
    let distinct: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), distinct.len(), "a page is listed twice");
    let mut pages = list_pages();
    pages.remove("SUMMARY.md");
    assert_eq!(distinct, pages, "left: docs/SUMMARY.md, right: the pages that exist");
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let docs = root().join("docs");
    let mut pages: Vec<PathBuf> = list_pages().iter().map(|page| docs.join(page)).collect();
    pages.extend(AT_THE_ROOT.iter().map(|page| root().join(page)));
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in pages {
        for (line, target) in list_links(&read(&page)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file =
                if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let leads_somewhere =
                file.exists() && (anchor.is_empty() || list_anchors(&read(&file)).contains(anchor));
            if !leads_somewhere {
                let page = page.strip_prefix(root()).expect("it lies in the root");
                broken.push(format!("{}:{line}: {target}", page.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    let docs = list_pages().into_iter().filter(|page| !GENERATED.contains(&page.as_str()));
    let pages =
        docs.map(|page| format!("docs/{page}")).chain(AT_THE_ROOT.iter().map(|page| (*page).to_owned()));
    for page in pages {
        for (number, line) in text_lines(&read(&root().join(&page))) {
            let is_exempt = line.trim_start().starts_with(['|', '`']) || !line.trim().contains(' ');
            if line.chars().count() > MAX_LINE_CHARS && !is_exempt {
                long.push(format!("{page}:{number}: {} characters", line.chars().count()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn headings_of_the_changelog_stand_between_empty_lines() {
    let text = read(&root().join("CHANGELOG.md"));
    let lines: Vec<&str> = text.lines().collect();
    let is_close = |at: usize| lines.get(at).is_some_and(|line| !line.is_empty());
    let crowded: Vec<usize> = (1..lines.len())
        .filter(|&at| lines[at].starts_with('#') && (is_close(at - 1) || is_close(at + 1)))
        .map(|at| at + 1)
        .collect();
    assert!(crowded.is_empty(), "lines {crowded:?}");
}

/// Rust on the pages is not compiled, so names in it could go stale.
#[test]
fn calls_on_the_pages_are_methods_that_exist() {
    let methods = |folder: &str| {
        let mut found = BTreeSet::new();
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("sources can be read").map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let source = read(&path);
                    let names = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub "));
                    let names =
                        names.filter_map(|line| line.trim_start_matches("async ").strip_prefix("fn "));
                    found.extend(
                        names.map(|name| name.split(['(', '<']).next().unwrap_or_default().to_owned()),
                    );
                }
            }
        }
        found
    };
    let receivers =
        [("hapax", methods("crates/hapax/src")), ("engine", methods("crates/engine/src/runtime"))];
    let mut pages: Vec<PathBuf> = list_pages().iter().map(|page| root().join("docs").join(page)).collect();
    pages.push(root().join("README.md"));
    let (mut seen, mut unknown) = (0, Vec::new());
    for page in pages {
        for (number, line) in read(&page).lines().enumerate() {
            for (receiver, methods) in &receivers {
                for call in list_calls(line, receiver) {
                    seen += 1;
                    if !methods.contains(call) {
                        unknown.push(format!("{}:{}: {receiver}.{call}", page.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(seen > 30, "only {seen} calls were found");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn calls_are_found_by_their_receiver() {
    let line = "let x = hapax.start(`a`); my_hapax.end(), hapax.field, hapax.signal::<T>(1)";
    assert_eq!(list_calls(line, "hapax"), ["start", "signal"]);
}

/// Names of methods that a line calls on a variable.
fn list_calls<'l>(line: &'l str, receiver: &str) -> Vec<&'l str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for (at, _) in line.match_indices(receiver) {
        let Some(rest) = line[at + receiver.len()..].strip_prefix('.') else { continue };
        let name = rest.split(|letter| !is_word(letter)).next().unwrap_or_default();
        let after = &rest[name.len()..];
        let is_call = after.starts_with('(') || after.starts_with("::<");
        if is_call && !name.is_empty() && !line[..at].ends_with(is_word) {
            found.push(name);
        }
    }
    found
}

#[test]
fn anchors_are_made_as_browsers_expect_them() {
    let anchors = list_anchors(
        "# One `two` three\n## PostgreSQL: roles & settings\n```text\n# no\n```\n## One two three\n",
    );
    let expected = ["one-two-three", "one-two-three-1", "postgresql-roles--settings"];
    assert_eq!(anchors.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn links_are_found_in_text_and_not_in_code() {
    let found = list_links("see [a](b.md#c), `[x](y)`\n```text\n[n](o)\n```\n[d](https://e)\n");
    assert_eq!(found, [(1, "b.md#c".to_owned()), (5, "https://e".to_owned())]);
}

/// The lines outside code blocks, with their numbers.
fn text_lines(text: &str) -> Vec<(usize, &str)> {
    let mut in_block = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            found.push((number + 1, line));
        }
    }
    found
}

/// The targets of links, with their lines.
fn list_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text_lines(text) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for part in plain.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of the headings, as GitHub and mdBook make them.
fn list_anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in text_lines(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor: String = title.trim().to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let taken = (0..).map(|count| if count == 0 { anchor.clone() } else { format!("{anchor}-{count}") });
        let free = taken.into_iter().find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}
