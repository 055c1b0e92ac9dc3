//! Crates that list their test programs list every test file: an unlisted one would never be
//! compiled, and never fail.

use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_file_with_tests_belongs_to_a_program() {
    let mut looked_at = 0;
    let mut forgotten = Vec::new();
    for folder in list(&root().join("crates")) {
        let manifest: Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        if manifest["package"].get("autotests").and_then(toml::Value::as_bool) != Some(false) {
            continue;
        }
        looked_at += 1;
        let programs: Vec<PathBuf> = manifest["test"]
            .as_array()
            .expect("the programs are listed")
            .iter()
            .map(|program| folder.join(program["path"].as_str().expect("each with its path")))
            .collect();
        let named: String = programs.iter().map(|program| fs::read_to_string(program).unwrap()).collect();
        for file in list(&folder.join("tests")) {
            let is_rust = file.extension().is_some_and(|end| end == "rs");
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let is_named = named.lines().any(|line| line == format!("mod {name};"));
            if is_rust && !programs.contains(&file) && !is_named {
                forgotten.push(file);
            }
        }
    }
    assert!(looked_at > 0, "there are such crates");
    assert!(forgotten.is_empty(), "give each a line `mod …;` in the program of its crate: {forgotten:#?}");
}
