//! Every line of `docs/checklist.md` is proven by a test that names it, or listed with the reason
//! why no test can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where tests are.
const FOLDERS: &[&str] = &["crates", "examples"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Content of the page: its lines, and the lines that no test can prove.
struct Page {
    lines: BTreeSet<String>,
    unproven: BTreeMap<String, String>,
}

fn read_page() -> Page {
    let text = fs::read_to_string(root().join("docs/checklist.md")).expect("the page is there");
    let (mut lines, mut unproven) = (BTreeSet::new(), BTreeMap::new());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        if let Some((id, about)) = line.strip_prefix("- ").and_then(|line| line.split_once(' ')) {
            assert_eq!(list_ids(id), [id], "{line}");
            let (group, number) = id.split_once('.').expect("it has a number");
            let count = counts.entry(group.to_owned()).or_default();
            *count += 1;
            assert_eq!(number, count.to_string(), "the lines of {group} are counted: {line}");
            assert!(!about.trim().is_empty() && lines.insert(id.to_owned()), "{line}");
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", id, because, ""] = cells.as_slice()
            && list_ids(id) == [*id]
        {
            assert!(!because.is_empty(), "{id} has no reason");
            assert!(unproven.insert((*id).to_owned(), (*because).to_owned()).is_none(), "{id} twice");
        }
    }
    Page { lines, unproven }
}

#[test]
fn every_line_is_proven_by_a_test_or_says_why_none_can() {
    let page = read_page();
    let proven = list_proven();
    let unknown: Vec<_> = proven.iter().filter(|(id, _)| !page.lines.contains(*id)).collect();
    assert!(unknown.is_empty(), "tests name lines that are not on the page: {unknown:#?}");
    for id in page.unproven.keys() {
        assert!(page.lines.contains(id), "there is no line {id}");
        let tests = proven.get(id);
        assert!(tests.is_none(), "{id} is said to be beyond tests, and is proven by {tests:?}");
    }
    let missing: Vec<_> = page
        .lines
        .iter()
        .filter(|id| !proven.contains_key(*id) && !page.unproven.contains_key(*id))
        .collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}

#[test]
fn lines_are_named_one_by_one_and_in_ranges() {
    let ids = |text: &str| list_ids(text).join(" ");
    assert_eq!(ids("S0.5, S0.13; RELIABILITY 7, 9: one run"), "S0.5 S0.13");
    assert_eq!(ids("S0.4-S0.6 and G2.1."), "S0.4 S0.5 S0.6 G2.1");
    assert_eq!(ids("S2.17 to S2.19: each transition"), "S2.17 S2.18 S2.19");
    assert_eq!(ids("S2.17-19 is one line, S2.9-G2.1 are two"), "S2.17 S2.9 G2.1");
    assert_eq!(ids("ES0.1, S10.1, S0.x, §3, CONTRACT 9.1, S1. 2"), "");
}

#[test]
fn only_what_stands_before_a_test_counts() {
    let text = "\
/// S0.1: about a type.
struct Run;

/// S0.2
/// and S0.3.
#[tokio::test]
async fn it_is_so() {}

/// S0.4
fn no_test() {}
/// S0.5

#[test]
fn apart() {}
";
    let found = |is_test_file| list_in(text, is_test_file).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(found(false), "S0.2 S0.3");
    assert_eq!(found(true), "S0.2 S0.3 S0.4");
}

/// The lines that tests name, with the files of the tests.
fn list_proven() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut proven: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("source is UTF-8");
                let own = path.strip_prefix(root()).expect("it lies below").to_owned();
                for id in list_in(&text, is_of_tests(&own)) {
                    proven.entry(id).or_default().insert(own.clone());
                }
            }
        }
    }
    proven
}

/// Files in which every function is a test or a helper: a macro may turn them into tests, such as
/// the cases for stores.
fn is_of_tests(path: &Path) -> bool {
    path.starts_with("crates/store-conformance/src/cases")
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// The lines that are named in the comments of tests.
fn list_in(text: &str, is_of_tests: bool) -> BTreeSet<String> {
    let (mut found, mut comment, mut is_test) = (BTreeSet::new(), String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            comment.push(' ');
            comment.push_str(said);
        } else if line.starts_with("#[") {
            is_test |= line.contains("test");
        } else {
            let is_function = line.split_whitespace().any(|word| word == "fn");
            if is_function && (is_test || is_of_tests) {
                found.extend(list_ids(&comment));
            }
            (comment, is_test) = (String::new(), false);
        }
    }
    found
}

/// The lines that a text names: `S0.5`, `S0.4-S0.6`, `S0.4 to S0.6`.
fn list_ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let Some((group, from, behind)) = read_id(rest).filter(|_| !before.is_alphanumeric()) else {
            (before, rest) = (first, &rest[first.len_utf8()..]);
            continue;
        };
        let upto = ["-", " to "].iter().find_map(|between| read_id(behind.strip_prefix(between)?));
        let upto = upto.filter(|(other, upto, _)| *other == group && *upto >= from);
        let (last, behind) = upto.map_or((from, behind), |(_, upto, behind)| (upto, behind));
        ids.extend((from..=last).map(|number| format!("{group}.{number}")));
        (before, rest) = ('0', behind);
    }
    ids
}

/// The group and number of a line at the start of a text, and the rest.
fn read_id(text: &str) -> Option<(&str, u32, &str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let behind = text.strip_prefix(['S', 'G'])?;
    let group = 1 + Some(digits(behind)).filter(|count| *count == 1)?;
    let number = text[group..].strip_prefix('.')?;
    let end = Some(digits(number)).filter(|count| *count > 0)?;
    Some((&text[..group], number[..end].parse().ok()?, &number[end..]))
}
