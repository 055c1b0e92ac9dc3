//! Replaces rustdoc while cargo runs the doc-tests, and documents each library as well, without a
//! warning.
//!
//! `cargo doc` compiles every dependency again, only for its types. The doc-tests of a library use
//! the dependencies that the tests have already compiled. So does its documentation here, which
//! takes seconds instead of minutes. Programs are not documented.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};

/// Set for a process that is started as rustdoc: the output folder of the documentation.
pub(crate) const DOCS_IN: &str = "HAPAX_DOCS_IN";

/// The output folder, if this process was started as rustdoc.
pub(crate) fn is_asked_for() -> Option<PathBuf> {
    std::env::var_os(DOCS_IN).map(PathBuf::from)
}

/// Documents a library before testing it; passes other calls of cargo on.
pub(crate) fn stand_in(docs_in: PathBuf, asked: Vec<OsString>) -> ExitCode {
    let run = || {
        if let Some(documenting) = documenting(&asked) {
            let mut document = Command::new("rustdoc");
            document.args(documenting).args(["-D", "warnings", "--out-dir"]).arg(&docs_in);
            let documented = run(document)?;
            if !documented.success() {
                return Ok(documented);
            }
        }
        let mut test = Command::new("rustdoc");
        test.args(&asked);
        run(test)
    };
    match run() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut command: Command) -> Result<ExitStatus> {
    command.status().context("could not start `rustdoc`")
}

/// The arguments to document the tested library; none if nothing is tested.
fn documenting(asked: &[OsString]) -> Option<Vec<OsString>> {
    let mut tests = false;
    let mut kept = Vec::with_capacity(asked.len());
    let mut left = asked.iter();
    while let Some(argument) = left.next() {
        match argument.to_str() {
            Some("--test") => tests = true,
            Some("--no-run") => {}
            // Options with a separate value.
            Some("--test-run-directory" | "--test-args" | "--test-runtool" | "--test-runtool-arg") => {
                left.next();
            }
            _ => kept.push(argument.clone()),
        }
    }
    tests.then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn what_is_tested_is_documented_with_the_same_crates() {
        let asked = "--edition=2024 --crate-name hapax --test src/lib.rs --test-run-directory crates/hapax \
                     --extern tokio=libtokio.rlib --test-args --nocapture --cfg feature=\"postgres\"";
        let expected = "--edition=2024 --crate-name hapax src/lib.rs --extern tokio=libtokio.rlib \
                        --cfg feature=\"postgres\"";
        assert_eq!(documenting(&arguments(asked)), Some(arguments(expected)));
    }

    #[test]
    fn a_question_of_cargo_documents_nothing() {
        assert_eq!(documenting(&arguments("-vV")), None);
    }
}
