//! Why a command failed, for people: what the server says, and where exactly.

use anyhow::Error;
use hapax_api::Problem;
use hapax_api::client::ClientError;
use serde_json::Value;

use super::for_people::plain;

/// What is said on standard error.
pub(crate) fn told(error: &Error) -> String {
    let mut lines = vec![format!("hapax: {}", plain(&format!("{error:#}")))];
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(problem)) => {
            lines[0] =
                format!("hapax: {} ({}): {}", plain(&problem.title), problem.code, plain(&problem.detail));
            lines.extend(particulars(problem));
        }
        Some(ClientError::Unreachable { was_sent: true, .. }) => {
            lines.push(
                "  it may have been done; to be sure, look, or send it again under the same --request-key"
                    .into(),
            );
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
        lines.push(format!("  operation {id}: {step}, {status}; `hapax operations show {id}` tells more"));
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
        let told = told(&ClientError::Refused(Box::new(problem)).into());
        assert_eq!(
            told,
            "hapax: The key was used for another request (idempotency_key_conflict): The key names run r [2J.\n  \
             differs at /amount\n  /steps/0: no (unknown_field)\n  try again in 3 s"
        );
    }
}
