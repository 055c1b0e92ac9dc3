//! `hapax validate`: everything that is wrong with a document, without a server.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hapax_documents::{Format, Known, Problem, Severity, check_bytes, check_source_bytes};
use serde::Serialize;

use crate::bounded_file;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::output::for_people::plain;
use crate::output::shape::ShapeOptions;

const EXAMPLES: &str = "\
Examples:
  hapax validate order.yaml
  hapax validate definitions/*.yaml
  hapax validate stripe.yaml                   a webhook source: it has actions instead of steps
  generate | hapax validate - --json

Every problem is told at once, as FILE:LINE:COLUMN. Exits with 1 if a document has an error; a warning is none. Tasks,
workflows and secrets that only a server knows are not judged.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Documents in JSON or YAML; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// What was found in one file.
#[derive(Debug, Serialize)]
struct Found {
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    problems: Vec<Problem>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut wrong = 0;
    for file in &options.files {
        let found = look(file)?;
        wrong += usize::from(!found.valid);
        options.shape.show_all(std::slice::from_ref(&found), || text(&found))?;
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 document has errors"),
        count => bail!("{count} documents have errors"),
    }
}

fn look(path: &Path) -> Result<Found> {
    let bytes = bounded_file::read(path, MAX_DOCUMENT_BYTES)?;
    let file = path.display().to_string();
    if is_source(&bytes) {
        return Ok(match check_source_bytes(&bytes, Format::Any, &Known::default()) {
            Ok(checked) => {
                let name = Some(checked.source().name.clone());
                Found { file, valid: true, name, version: None, problems: checked.warnings().to_vec() }
            }
            Err(problems) => Found { file, valid: false, name: None, version: None, problems },
        });
    }
    Ok(match check_bytes(&bytes, Format::Any, &Known::default()) {
        Ok(checked) => {
            let document = checked.document();
            let name = Some(document.name.to_string());
            Found {
                file,
                valid: true,
                name,
                version: Some(document.version),
                problems: checked.warnings().to_vec(),
            }
        }
        Err(problems) => Found { file, valid: false, name: None, version: None, problems },
    })
}

/// Is it meant as a webhook source? Those have actions where others have steps.
fn is_source(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let has = |field: &str| match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(document) => document.get(field).is_some(),
        Err(_) => {
            text.lines().any(|line| line.trim_start_matches(['{', ' ']).starts_with(&format!("{field}:")))
        }
    };
    has("actions") && !has("steps")
}

fn text(found: &Found) -> String {
    let file = plain(&found.file);
    let mut lines = Vec::new();
    for problem in &found.problems {
        let place = problem.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let path =
            if problem.path.is_empty() { String::new() } else { format!(" in {}", plain(&problem.path)) };
        lines.push(format!(
            "{file}{place}: {severity}{path}: {} ({})\n",
            plain(&problem.message),
            problem.code
        ));
    }
    match (&found.name, found.version) {
        (Some(name), Some(version)) => {
            lines.push(format!("{file}: {} version {version} is valid\n", plain(name)));
        }
        (Some(name), None) => lines.push(format!("{file}: webhook source {} is valid\n", plain(name))),
        (None, _) => {}
    }
    lines.concat()
}
