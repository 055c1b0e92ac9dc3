//! SQL lives in files, one statement each, and is never put together from parts.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|found| found == end)).collect()
}

fn source() -> String {
    files("src", "rs").iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn no_statement_is_put_together_from_parts() {
    for file in files("src", "rs") {
        let text = fs::read_to_string(&file).unwrap();
        // Tests at the end of a file may say what they like.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|line| line.contains("format!") || line.contains("concat!")) {
            for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "PRAGMA ", "CREATE ", " WHERE "] {
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
    for prepared in source.split("prepare_cached(\"").skip(1).chain(source.split("execute(\"").skip(1)) {
        panic!("a statement outside its file: {:.60}", prepared);
    }
}

#[test]
fn a_file_holds_one_statement_unless_it_sets_up_a_connection() {
    for file in files("sql", "sql") {
        let text = fs::read_to_string(&file).unwrap();
        let statements = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let ends = statements.filter(|line| line.contains(';')).count();
        let sets_up = file.file_name().unwrap().to_str().unwrap().starts_with("set_up_");
        assert!(sets_up || ends == 0, "{}", file.display());
    }
}
