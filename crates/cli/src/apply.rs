//! `hapax apply`: uploads documents of every kind.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hapax_api::client::{Client, ClientError, Document, RequestOptions};
use hapax_api::{Code, DefinitionProblem, Problem};
use serde::Serialize;
use serde_json::Value;

use crate::bounded_file;
use crate::document_kind::DocumentKind;
use crate::exit_codes::UsageError;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::output::say;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax apply order.yaml
  hapax apply workflows/*.yaml stripe.yaml
  hapax apply invoice.yaml --if-version 3         replace version 3 and no other
  generate | hapax apply - --json

The kind is read from the document: a workflow has `steps`, a webhook source has `actions`, an entity workflow has `statusTypes`.
A version of a workflow never changes: the same document again is fine, another one under the same name and version exits with 6.
Sources and entity workflows are replaced. `hapax validate FILE` finds errors without a server.

Sources name secrets and never hold them. The server reads secret://stripe-webhook of the workspace acme from
HAPAX_SECRET_ACME__STRIPE_WEBHOOK, or from acme/stripe-webhook in its folder of secrets.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Documents in JSON or YAML; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Replace this version of a source or entity workflow, and no other.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Effect of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Created,
    Unchanged,
    Replaced,
}

/// One uploaded document, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Applied {
    file: String,
    kind: DocumentKind,
    change: Change,
    name: String,
    version: u64,
    /// Id of the definition or of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Path that the webhooks of a source are sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Type of the entities that an entity workflow moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { files, if_version, shape } = options;
    if if_version.is_some() && files.len() > 1 {
        return Err(UsageError("--if-version is for one document; give one FILE".into()).into());
    }
    // All files are read before the first is sent, so that a misspelled name changes nothing.
    let mut documents = Vec::with_capacity(files.len());
    for file in files {
        let text = bounded_file::read_text(&file, MAX_DOCUMENT_BYTES)?;
        documents.push((file.display().to_string(), text));
    }
    let client = server.connect()?;
    for (file, text) in documents {
        let applied = apply(&client, &file, &text, if_version).await.with_context(|| file.clone())?;
        shape.show_all(std::slice::from_ref(&applied), || summary(&applied))?;
    }
    Ok(())
}

async fn apply(client: &Client, file: &str, text: &str, if_version: Option<u64>) -> Result<Applied> {
    let document = match text.trim_start().starts_with('{') {
        true => Document::Json(text),
        false => Document::Yaml(text),
    };
    let kind = DocumentKind::of(text.as_bytes());
    let file = file.to_owned();
    match kind {
        DocumentKind::Workflow => {
            if if_version.is_some() {
                let refused = "a version of a workflow never changes, so --if-version does not apply; raise its version instead";
                return Err(UsageError(refused.into()).into());
            }
            let made = client.upload_definition(document, RequestOptions::default()).await?;
            let (change, found) = (Change::created_if(made.is_new), made.value);
            let version = u64::from(found.version);
            let id = Some(found.id);
            Ok(Applied { file, kind, change, name: found.name, version, id, path: None, entity: None })
        }
        DocumentKind::Source => {
            let (found, change) = apply_source(client, text, document, if_version).await?;
            warn(&found.warnings);
            let found = found.summary;
            let (id, path) = (Some(found.id), Some(found.path));
            Ok(Applied {
                file,
                kind,
                change,
                name: found.name,
                version: found.version,
                id,
                path,
                entity: None,
            })
        }
        DocumentKind::Entity => {
            let (found, change) = apply_entity_workflow(client, text, document, if_version).await?;
            warn(&found.warnings);
            let found = found.summary;
            let entity = Some(found.entity_type);
            let (name, version) = (found.name, found.version);
            Ok(Applied { file, kind, change, name, version, id: None, path: None, entity })
        }
    }
}

impl Change {
    fn created_if(is_new: bool) -> Self {
        match is_new {
            true => Change::Created,
            false => Change::Unchanged,
        }
    }
}

/// Creates the source, or replaces the version that the server named, so that nobody else's change is lost.
async fn apply_source(
    client: &Client,
    text: &str,
    document: Document<'_>,
    if_version: Option<u64>,
) -> Result<(hapax_api::WebhookSource, Change)> {
    let mut seen = None;
    if if_version.is_none() {
        match client.create_source(document, RequestOptions::default()).await {
            Ok(made) => return Ok((made.value, Change::created_if(made.is_new))),
            Err(ClientError::Refused(problem)) if problem.code == Code::NameTaken => {
                seen = version_in(&problem)
            }
            Err(error) => return Err(error.into()),
        }
    }
    let known = hapax_documents::DeclaredNames::default();
    let Ok(checked) = hapax_documents::check_source(text, hapax_documents::Format::Any, &known) else {
        bail!("the document has errors; `hapax validate FILE` lists them");
    };
    let options = RequestOptions { idempotency_key: None, if_version: if_version.or(seen) };
    let replaced = client.replace_source(&checked.source().name, document, options).await?;
    Ok((replaced, Change::Replaced))
}

/// Creates the entity workflow, or replaces the version that the server named, so that nobody else's change is lost.
async fn apply_entity_workflow(
    client: &Client,
    text: &str,
    document: Document<'_>,
    if_version: Option<u64>,
) -> Result<(hapax_api::EntityWorkflow, Change)> {
    let mut seen = None;
    if if_version.is_none() {
        match client.create_entity_workflow(document, RequestOptions::default()).await {
            Ok(made) => return Ok((made.value, Change::created_if(made.is_new))),
            Err(ClientError::Refused(problem)) if problem.code == Code::NameTaken => {
                seen = version_in(&problem)
            }
            Err(error) => return Err(error.into()),
        }
    }
    let known = hapax_documents::DeclaredNames::default();
    let Ok(checked) = hapax_documents::check_entity(text, hapax_documents::Format::Any, &known) else {
        return Err(UsageError("the document has errors; `hapax validate FILE` lists them".into()).into());
    };
    let name = checked.document().workflow().name.to_string();
    let put = client.put_entity_workflow(&name, document, if_version.or(seen)).await?;
    Ok((put.value, if put.is_new { Change::Created } else { Change::Replaced }))
}

/// Version of the existing document with this name.
fn version_in(problem: &Problem) -> Option<u64> {
    problem.more.get("version").and_then(Value::as_u64)
}

fn warn(warnings: &[DefinitionProblem]) {
    for warning in warnings {
        say(&format!("warning at {}: {}", plain(&warning.path), plain(&warning.message)));
    }
}

fn summary(applied: &Applied) -> String {
    let what = match applied.change {
        Change::Created => "created",
        Change::Unchanged => "unchanged",
        Change::Replaced => "replaced",
    };
    let (name, version) = (plain(&applied.name), applied.version);
    match applied.kind {
        DocumentKind::Workflow => format!("workflow {name}@{version} {what}\n"),
        DocumentKind::Source => {
            let path = plain(applied.path.as_deref().unwrap_or_default());
            format!("webhook source {name} {what} (version {version}); send its webhooks to {path}\n")
        }
        DocumentKind::Entity => {
            let entity = plain(applied.entity.as_deref().unwrap_or_default());
            format!("entity workflow {name} {what} (version {version}); it moves entities of type {entity}\n")
        }
    }
}
