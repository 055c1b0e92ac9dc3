//! An uploaded document: JSON or YAML.

use axum::extract::{FromRequest, Request};
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_documents::{
    Checked, CheckedEntity, CheckedSource, DeclaredNames, Format, Severity, WorkspaceServices,
};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::value::RawValue;

use crate::answer::{Refused, echo};
use crate::limits::{MAX_DOCUMENT_BYTES, MAX_NOTED_SECRETS};
use crate::strict_json::read_body;

/// The text of a document, and its format.
#[derive(Debug)]
pub struct Uploaded {
    text: String,
    format: Format,
}

impl Uploaded {
    /// A JSON document.
    pub fn json(text: impl Into<String>) -> Self {
        Uploaded { text: text.into(), format: Format::Json }
    }

    /// Checks it, and reports all errors at once.
    pub(crate) fn check(&self, services: WorkspaceServices<'_>) -> Result<Checked, Problem> {
        hapax_documents::check(&self.text, self.format, &services.known())
            .map_err(|found| refusal(&found, Code::DefinitionInvalid))
    }

    /// Checks it as an entity workflow, and reports all errors at once.
    pub(crate) fn check_entity(&self, services: WorkspaceServices<'_>) -> Result<CheckedEntity, Problem> {
        let known = DeclaredNames { tasks: None, ..services.known() };
        hapax_documents::check_entity(&self.text, self.format, &known)
            .map_err(|found| refusal(&found, Code::EntityWorkflowInvalid))
    }

    /// Checks it as a webhook source, and reports all errors at once.
    pub(crate) fn check_source(&self) -> Result<CheckedSource, Problem> {
        hapax_documents::check_source(&self.text, self.format, &DeclaredNames::default()).map_err(|found| {
            let (problems, detail) = told(&found);
            Problem::new(Code::SourceInvalid, detail)
                .with("problems", serde_json::to_value(problems).unwrap_or_default())
        })
    }

    /// The document as JSON: the original text if it was JSON, otherwise the canonical form.
    pub(crate) fn document(&self, checked: &Checked) -> Result<Box<RawValue>, Problem> {
        let text = match self.format {
            Format::Json => self.text.trim(),
            Format::Yaml | Format::Any => checked.canonical(),
        };
        RawValue::from_string(text.to_owned())
            .map_err(|error| Problem::new(Code::DefinitionInvalid, error.to_string()))
    }
}

impl<S: Send + Sync> FromRequest<S> for Uploaded {
    type Rejection = Refused;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refused> {
        let format = format_of(request.headers())?;
        let bytes = read_body(request.into_body(), MAX_DOCUMENT_BYTES).await?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_| Refused::new(Code::InvalidJson, "The document is not UTF-8."))?;
        Ok(Uploaded { text, format })
    }
}

/// Rejects with all errors; if all of them share a code of their own, uses that code.
fn refusal(found: &[hapax_documents::Problem], code: Code) -> Problem {
    let (problems, detail) = told(found);
    let all_are = |rule: &str| !problems.is_empty() && problems.iter().all(|problem| problem.rule == rule);
    let code = match () {
        () if all_are("unprotected_effect") => Code::UnprotectedEffect,
        () if all_are("address_not_allowed") => Code::AddressNotAllowed,
        () => code,
    };
    Problem::new(code, detail).with("problems", serde_json::to_value(problems).unwrap_or_default())
}

/// The errors among the findings, and a one-line summary.
fn told(found: &[hapax_documents::Problem]) -> (Vec<api::DefinitionProblem>, String) {
    let errors = found.iter().filter(|problem| problem.severity == Severity::Error);
    let problems: Vec<api::DefinitionProblem> = errors.map(document_problem_to_api).collect();
    let detail = match problems.first() {
        Some(first) => {
            let (count, path, message) = (problems.len(), echo(&first.path), echo(&first.message));
            format!("{count} problem(s); the first, at {path:?}: {message}")
        }
        None => "The document cannot be read.".into(),
    };
    (problems, detail)
}

/// The wire form.
pub(crate) fn document_problem_to_api(problem: &hapax_documents::Problem) -> api::DefinitionProblem {
    api::DefinitionProblem {
        path: problem.path.clone(),
        rule: problem.code.to_owned(),
        message: problem.message.clone(),
    }
}

fn format_of(headers: &http::HeaderMap) -> Result<Format, Refused> {
    let refused = || {
        Refused::new(
            Code::UnsupportedMediaType,
            "Send the document as application/json or application/yaml, in UTF-8, without Content-Encoding.",
        )
    };
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(refused());
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(given), None) = (types.next(), types.next()) else { return Err(refused()) };
    let given = given.to_str().map_err(|_| refused())?.to_ascii_lowercase();
    let mut parts = given.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    if !parts.all(|parameter| matches!(parameter, "" | "charset=utf-8" | "charset=\"utf-8\"")) {
        return Err(refused());
    }
    match kind {
        "application/json" => Ok(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Format::Yaml),
        _ => Err(refused()),
    }
}
/// The change for the audit log, with the secrets that the document can send.
pub(crate) fn with_secrets(change: &str, document: &str) -> String {
    let named = hapax_documents::named_secrets(document);
    if named.is_empty() {
        return change.to_owned();
    }
    let shown: Vec<&str> = named.iter().copied().take(MAX_NOTED_SECRETS).collect();
    let more = if named.len() > shown.len() { ", …" } else { "" };
    format!("{change}; names the secrets {}{more}", shown.join(", "))
}
