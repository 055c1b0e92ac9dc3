//! A document as it was sent: JSON or YAML.

use crate::documents_shim::{Checked, Format, Hands};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use hapax_api as api;
use hapax_api::{Code, Problem};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::value::RawValue;

use crate::answer::Refused;
use crate::limits::MAX_DOCUMENT_BYTES;

/// The text of a document, and what it is written in.
#[derive(Debug)]
pub struct Uploaded {
    text: String,
    format: Format,
}

impl Uploaded {
    /// A document that is JSON.
    pub fn json(text: impl Into<String>) -> Self {
        Uploaded { text: text.into(), format: Format::Json }
    }

    /// Checks it; all that is wrong is told at once.
    pub(crate) fn check(&self, hands: &Hands) -> Result<Checked, Problem> {
        crate::documents_shim::check(&self.text, self.format, Some(hands)).map_err(|report| {
            let problems: Vec<api::DefinitionProblem> = report
                .errors()
                .map(|problem| api::DefinitionProblem {
                    path: problem.path.clone(),
                    rule: problem.code.to_string(),
                    message: problem.message.clone(),
                })
                .collect();
            let detail = match problems.first() {
                Some(first) => format!(
                    "{} problem(s); the first, at {:?}: {}",
                    problems.len(),
                    first.path,
                    first.message
                ),
                None => "The document cannot be read.".into(),
            };
            let code = match problems.iter().all(|problem| problem.rule == "unprotected_effect")
                && !problems.is_empty()
            {
                true => Code::UnprotectedEffect,
                false => Code::DefinitionInvalid,
            };
            Problem::new(code, detail).with("problems", serde_json::to_value(problems).unwrap_or_default())
        })
    }

    /// The document as JSON, as it was sent if it was.
    pub(crate) fn document(&self) -> Result<Box<RawValue>, Problem> {
        let refused =
            |error: &dyn std::fmt::Display| Problem::new(Code::DefinitionInvalid, error.to_string());
        match self.format {
            Format::Json => {
                RawValue::from_string(self.text.trim().to_owned()).map_err(|error| refused(&error))
            }
            Format::Yaml => {
                let value = crate::documents_shim::to_json(&self.text, Format::Yaml)
                    .map_err(|error| refused(&error))?;
                serde_json::value::to_raw_value(&value).map_err(|error| refused(&error))
            }
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Uploaded {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let format = format_of(request.headers())?;
        let bytes = axum::body::to_bytes(request.into_body(), MAX_DOCUMENT_BYTES).await;
        let _ = state;
        let bytes: Bytes = bytes.map_err(|_| {
            Refused::new(Code::PayloadTooLarge, format!("A document has at most {MAX_DOCUMENT_BYTES} bytes."))
                .with("maxBytes", MAX_DOCUMENT_BYTES)
        })?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_| Refused::new(Code::InvalidJson, "The document is not UTF-8."))?;
        Ok(Uploaded { text, format })
    }
}

fn format_of(headers: &http::HeaderMap) -> Result<Format, Refused> {
    let refused = || {
        Refused::new(
            Code::UnsupportedMediaType,
            "Send the document as application/json or application/yaml, in UTF-8, not encoded otherwise.",
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
