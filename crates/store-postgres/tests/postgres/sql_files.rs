//! SQL lives in files, one statement each, and is never concatenated.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|found| found == end)).collect()
}

/// All code but the tests, which are exempt.
fn source() -> String {
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap();
    let files = files("src", "rs");
    files.iter().filter(|file| !file.ends_with("plans.rs")).map(|file| code(&read(file)).to_owned()).collect()
}

fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn no_statement_is_put_together_from_parts() {
    for file in files("src", "rs") {
        let text = fs::read_to_string(&file).unwrap();
        for line in code(&text).lines().filter(|line| line.contains("format!") || line.contains("concat!")) {
            for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", " WHERE ", "SET "] {
                assert!(!line.contains(word), "{}: {line}", file.display());
            }
        }
    }
}

#[test]
fn every_statement_has_a_file_and_every_file_is_used() {
    let source = source();
    let used: Vec<&str> =
        source.split("include_str!(\"../sql/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    for file in files("sql", "sql") {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(used.contains(&name), "nothing uses {name}");
    }
    for word in ["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE ", "\"CREATE "] {
        let outside = source.split(word).nth(1);
        assert!(outside.is_none(), "a statement outside its file: {word}{:.60}", outside.unwrap_or_default());
    }
}

#[test]
fn a_file_holds_one_statement_unless_it_makes_the_schema() {
    for file in files("sql", "sql") {
        let text = fs::read_to_string(&file).unwrap();
        let statements = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let ends = statements.filter(|line| line.contains(';')).count();
        assert!(file.ends_with("create_schema.sql") || ends == 0, "{}", file.display());
    }
}
