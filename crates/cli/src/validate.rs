//! `hapax validate`: everything that is wrong with a document, without a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hapax::model::Name;
use hapax_documents::{
    DeclaredNames, EntityDocument, Format, Problem, Severity, check_bytes, check_entity_bytes,
    check_source_bytes, draw_mermaid, draw_svg,
};
use serde::Serialize;

use crate::bounded_file;
use crate::document_kind::DocumentKind;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::output::{print, say};

const EXAMPLES: &str = "\
Examples:
  hapax validate order.yaml
  hapax validate definitions/*.yaml
  hapax validate stripe.yaml                   a webhook source: it has actions instead of steps
  hapax validate invoice.yaml --module billing an entity workflow, whose module must be one that has a janitor
  hapax validate invoice.yaml --svg > invoice.svg
  generate | hapax validate - --json

Every problem is told at once, as FILE:LINE:COLUMN. Exits with 1 if a document has an error; a warning is none. Tasks,
workflows and secrets that only a server knows are not judged.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Documents in JSON or YAML; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A module that has a janitor; may be given several times. Then a claim of an entity workflow of another module is an error.
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<String>,
    /// Print the state machine of one entity workflow as a Mermaid diagram instead.
    #[arg(long, conflicts_with_all = ["svg", "shape", "json"])]
    mermaid: bool,
    /// Print the state machine of one entity workflow as an SVG picture instead.
    #[arg(long, conflicts_with_all = ["shape", "json"])]
    svg: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Result for one file.
#[derive(Debug, Serialize)]
struct Found {
    file: String,
    kind: DocumentKind,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    problems: Vec<Problem>,
    #[serde(skip)]
    entity: Option<EntityDocument>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let modules = options.modules.iter().map(|name| Name::new("module", name));
    let modules = modules.collect::<Result<BTreeSet<Name>, _>>()?;
    let modules = (!modules.is_empty()).then_some(modules);
    if options.mermaid || options.svg {
        return draw(options, modules.as_ref());
    }
    let mut wrong = 0;
    for file in &options.files {
        let found = look(file, modules.as_ref())?;
        wrong += usize::from(!found.valid);
        options.shape.show_all(std::slice::from_ref(&found), || text(&found))?;
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 document has errors"),
        count => bail!("{count} documents have errors"),
    }
}

/// The picture goes to standard output, and all there is to say about the document to standard error.
fn draw(options: &Options, modules: Option<&BTreeSet<Name>>) -> Result<()> {
    let [file] = options.files.as_slice() else {
        bail!("{} documents are too many for one picture: name one", options.files.len());
    };
    let found = look(file, modules)?;
    let told = text(&found);
    let problems = told.lines().take(found.problems.len());
    problems.for_each(say);
    match &found.entity {
        Some(entity) if found.valid => print(&match options.svg {
            true => draw_svg(entity.workflow()),
            false => draw_mermaid(entity.workflow()),
        }),
        _ if found.kind == DocumentKind::Entity => bail!("1 document has errors"),
        _ => bail!(
            "{} is not an entity workflow, so it has no state machine to draw: those have status_types",
            plain(&found.file)
        ),
    }
}

fn look(path: &Path, modules: Option<&BTreeSet<Name>>) -> Result<Found> {
    let bytes = bounded_file::read(path, MAX_DOCUMENT_BYTES)?;
    let file = path.display().to_string();
    let mut found = Found {
        file,
        kind: DocumentKind::of(&bytes),
        valid: true,
        name: None,
        version: None,
        problems: Vec::new(),
        entity: None,
    };
    match found.kind {
        DocumentKind::Entity => match check_entity_bytes(&bytes, Format::Any, &DeclaredNames::default()) {
            Ok(checked) => {
                found.name = Some(checked.document().workflow().name.to_string());
                found.problems = checked.warnings().to_vec();
                let uncovered = modules.and_then(|modules| checked.check_coverage(modules));
                found.valid = uncovered.is_none();
                found.problems.extend(uncovered);
                found.entity = Some(checked.document().clone());
            }
            Err(problems) => (found.valid, found.problems) = (false, problems),
        },
        DocumentKind::Source => match check_source_bytes(&bytes, Format::Any, &DeclaredNames::default()) {
            Ok(checked) => {
                found.name = Some(checked.source().name.clone());
                found.problems = checked.warnings().to_vec();
            }
            Err(problems) => (found.valid, found.problems) = (false, problems),
        },
        DocumentKind::Workflow => match check_bytes(&bytes, Format::Any, &DeclaredNames::default()) {
            Ok(checked) => {
                let document = checked.document();
                (found.name, found.version) = (Some(document.name.to_string()), Some(document.version));
                found.problems = checked.warnings().to_vec();
            }
            Err(problems) => (found.valid, found.problems) = (false, problems),
        },
    }
    Ok(found)
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
    let name = found.name.as_deref().map(plain).filter(|_| found.valid);
    match (name, found.kind, &found.entity) {
        (Some(name), DocumentKind::Workflow, _) => {
            let version = found.version.unwrap_or_default();
            lines.push(format!("{file}: {name} version {version} is valid\n"));
        }
        (Some(name), DocumentKind::Source, _) => {
            lines.push(format!("{file}: webhook source {name} is valid\n"))
        }
        (Some(name), DocumentKind::Entity, Some(entity)) => {
            let workflow = entity.workflow();
            let claimed = workflow.status_types.iter().filter(|status| workflow.is_transient(status)).count();
            lines.push(format!(
                "{file}: entity workflow {name} is valid: {} statuses, {claimed} of them claim states of the module {}, and {} steps\n",
                workflow.status_types.len(),
                workflow.module,
                workflow.steps.len()
            ));
        }
        _ => {}
    }
    lines.concat()
}
