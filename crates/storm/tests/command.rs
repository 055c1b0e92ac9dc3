//! The storm as a program.

use std::process::Command;

#[test]
fn its_help_says_where_it_is_explained() {
    let help = Command::new(env!("CARGO_BIN_EXE_hapax-storm")).arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && text.contains("cargo xtask storm --help"), "{text}");
}

#[test]
fn a_program_that_is_not_there_ends_it_before_anything_starts() {
    let folder = std::env::temp_dir().join(format!("hapax-storm-{}", std::process::id()));
    let mut storm = Command::new(env!("CARGO_BIN_EXE_hapax-storm"));
    storm.args(["--program", "no-such-hapax", "--seed", "1", "--folder"]).arg(&folder);
    let output = storm.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("there is no such program"), "{said}");
}
