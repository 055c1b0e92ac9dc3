//! Error texts: what failed, where exactly, and what to do.

use anyhow::Error;
use hapax_api::Problem;
use hapax_api::client::ClientError;
use serde_json::Value;

use super::tables::plain;
use crate::server_options::Origin;

/// Where a command sent its requests to and took its key from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) server: Option<(String, Origin)>,
    pub(crate) key_from: Option<Origin>,
}

/// Text of an error, for standard error.
pub(crate) fn describe(error: &Error, connection: impl FnOnce() -> Connection) -> String {
    let mut lines = vec![format!("hapax: {}", plain(&format!("{error:#}")))];
    let Some(client_error) = error.downcast_ref::<ClientError>() else { return lines.remove(0) };
    // Context of the error, such as the file that was uploaded.
    let context = match error.to_string() {
        outer if outer == client_error.to_string() => String::new(),
        outer => format!("{}: ", plain(&outer)),
    };
    match client_error {
        ClientError::Refused(problem) => {
            lines[0] = format!(
                "hapax: {context}{} ({}): {}",
                plain(&problem.title),
                problem.code,
                plain(&problem.detail)
            );
            lines.extend(particulars(problem));
        }
        ClientError::Unreachable { was_sent: true, .. } => lines.push(
            "  the request may have been done; check, or send it again under the same --request-key".into(),
        ),
        _ => {}
    }
    match client_error {
        ClientError::Unreachable { .. } => {
            if let Some((server, origin)) = connection().server {
                lines.push(format!("  the server is {}, from {origin}", plain(&server)));
                lines.push(
                    "  to use another one: --server URL, HAPAX_SERVER or `hapax login`; to start one: `hapax dev`"
                        .into(),
                );
            }
        }
        _ if client_error.status() == Some(401) => {
            let Connection { server, key_from } = connection();
            if let (Some((server, _)), Some(origin)) = (server, key_from) {
                lines.push(format!("  the key came from {origin}, and was shown to {}", plain(&server)));
            }
            lines.push("  set HAPAX_API_KEY to a valid key, or store one with `hapax login`".into());
        }
        _ => {}
    }
    lines.join("\n")
}

fn particulars(problem: &Problem) -> Vec<String> {
    let mut lines = Vec::new();
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    for path in list(problem.more.get("storedRequest").and_then(|stored| stored.get("differingPaths"))) {
        lines.push(format!("  differs at {}", text(path)));
    }
    for found in list(problem.more.get("problems")) {
        let part = |name: &str| found.get(name).map(text).unwrap_or_default();
        lines.push(format!("  {}: {} ({})", part("path"), part("message"), part("rule")));
    }
    if let Some(operation) = problem.more.get("operation") {
        let part = |name: &str| operation.get(name).map(text).unwrap_or_default();
        let (id, step, status) = (part("id"), part("step"), part("status"));
        lines.push(format!(
            "  operation {id}: {step}, {status}; `hapax entities operations show {id}` shows more"
        ));
    }
    if let Some(failure) = problem.more.get("failure").and_then(|failure| failure.get("message")) {
        lines.push(format!("  because: {}", text(failure)));
    }
    if let Some(status) = problem.more.get("entityStatus") {
        let steps: Vec<String> = list(problem.more.get("allowedSteps")).iter().map(text).collect();
        let steps = if steps.is_empty() { "none".into() } else { steps.join(", ") };
        lines.push(format!("  it is {}; steps that can be taken now: {steps}", text(status)));
    }
    if let Some(path) = problem.more.get("path") {
        lines.push(format!("  at {}", text(path)));
    }
    if let Some(wait) = problem.retry_after {
        lines.push(format!("  try again in {wait}"));
    }
    if problem.status >= 500
        && let Some(trace) = &problem.trace_id
    {
        lines.push(format!("  the server's logs know it as {}", plain(trace)));
    }
    lines
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hapax_api::Code;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_says_what_and_where_and_cannot_steer_the_terminal() {
        let problem = Problem::new(Code::IdempotencyKeyConflict, "The key names run r\u{1b}[2J.")
            .with("storedRequest", json!({"differingPaths": ["/amount"]}))
            .with("problems", json!([{"path": "/steps/0", "message": "no", "rule": "unknown_field"}]))
            .retry_after(3);
        let text = describe(&ClientError::Refused(Box::new(problem)).into(), Connection::default);
        assert_eq!(
            text,
            "hapax: The key was used for another request (idempotency_key_conflict): The key names run r [2J.\n  \
             differs at /amount\n  /steps/0: no (unknown_field)\n  try again in 3s"
        );
    }
}
