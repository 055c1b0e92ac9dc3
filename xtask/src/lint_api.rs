//! `cargo xtask lint-api`: checks the API description against the recommended rules of Redocly's
//! linter.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tool::Tool;

/// Pinned, so that a new finding comes from a change in this project.
const LINTER: &str = "@redocly/cli@2.77.0";
/// The stored API description.
const DESCRIPTION: &str = "crates/server/tests/openapi.json";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Succeed with a message if npm is not installed
    #[arg(long)]
    if_possible: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !Tool::is_there("npm") {
        ensure!(options.if_possible, "npm is not installed; the linter is an npm package");
        println!("skipped: npm is not installed, so the API description was not linted");
        return Ok(());
    }
    let program = std::env::current_exe().context("the path of this command is unknown")?;
    let target = program.ancestors().nth(2).context("the target folder is not where it should be")?;
    let folder = target.join("lint-api");
    let linter = folder.join("node_modules/.bin/redocly");
    if !is_installed(&folder) {
        std::fs::create_dir_all(&folder)?;
        let installed = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
            .arg(&folder)
            .arg(LINTER)
            .stdin(Stdio::null())
            .status()
            .context("npm could not be started")?;
        if !installed.success() && options.if_possible {
            println!("skipped: npm could not install {LINTER}, so the API description was not linted");
            return Ok(());
        }
        ensure!(installed.success(), "npm could not install {LINTER}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a root")?;
    let linted = Command::new(linter)
        .arg("lint")
        .arg(root.join(DESCRIPTION))
        .args(["--format", "json", "--max-problems", "1000"])
        .current_dir(&folder)
        .env("REDOCLY_TELEMETRY", "off")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("the linter could not be started")?;
    let problems = problems_in(&String::from_utf8_lossy(&linted.stdout))?;
    problems.iter().for_each(|problem| println!("{problem}"));
    // Warnings fail too: an almost clean description does not stay that way.
    ensure!(problems.is_empty(), "{} problems in {DESCRIPTION}", problems.len());
    println!("{DESCRIPTION} is clean");
    Ok(())
}

fn is_installed(folder: &Path) -> bool {
    let wanted = LINTER.rsplit('@').next().unwrap_or_default();
    let text = std::fs::read_to_string(folder.join("node_modules/@redocly/cli/package.json"));
    text.is_ok_and(|text| text.contains(&format!("\"version\": \"{wanted}\"")))
}

/// One line for each problem.
fn problems_in(output: &str) -> Result<Vec<String>> {
    let start = output.find('{').context("the linter said nothing")?;
    let report: serde_json::Value =
        serde_json::from_str(&output[start..]).context("the report of the linter is not JSON")?;
    let problems =
        report["problems"].as_array().context("the report of the linter has no list of problems")?;
    let line = |problem: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let (rule, message) = (text(&problem["ruleId"]), text(&problem["message"]));
        format!("{rule}: {message} ({})", text(&problem["location"][0]["pointer"]))
    };
    Ok(problems.iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_told_in_a_line_with_its_rule_and_place() {
        let report = r##"{"problems": [{"ruleId": "operation-summary", "message": "No summary.", "location": [{"pointer": "#/paths/~1x"}]}]}"##;
        assert_eq!(problems_in(report).unwrap(), ["operation-summary: No summary. (#/paths/~1x)"]);
        assert!(problems_in(r#"{"problems": []}"#).unwrap().is_empty());
        assert!(problems_in("").is_err());
    }
}
