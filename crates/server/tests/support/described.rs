//! Compares every response in a test with the API description: its status, and the code of its
//! problem.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hapax_server::openapi;
use serde_json::Value;

use super::Answer;

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(openapi::text()).unwrap());

/// Fails the test if the description does not list the response.
pub fn check(method: &str, target: &str, answer: &Answer) {
    let path = target.split('?').next().unwrap_or_default();
    let Some(operation) = find_operation(method, path) else { return };
    let code = answer.code();
    let is_of_every_request = openapi::codes_of_every_request().iter().any(|it| it.as_str() == code);
    let is_problem = answer.header("content-type") == Some("application/problem+json");
    if is_problem && is_of_every_request {
        return;
    }
    let id = &operation["operationId"];
    let responses = operation["responses"].as_object().unwrap();
    assert!(
        responses.contains_key(&answer.status.to_string()),
        "the description of {id} does not tell of {} {code}: {}",
        answer.status,
        answer.text()
    );
    if is_problem {
        let codes: BTreeSet<&str> =
            operation["x-problem-codes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(codes.contains(&*code), "the description of {id} does not tell of {code}: {}", answer.text());
    }
}

/// The operation that serves this path. A path without braces goes before one with them.
fn find_operation(method: &str, path: &str) -> Option<&'static Value> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.split('/').collect();
        let is_part =
            |(wanted, part): (&&str, &&str)| (wanted.starts_with('{') && !part.is_empty()) || wanted == part;
        wanted.len() == parts.len() && wanted.iter().zip(&parts).all(is_part)
    };
    let paths = DESCRIPTION["paths"].as_object()?;
    let found = paths.iter().filter(|(template, _)| fits(template));
    let (_, item) = found.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method.to_lowercase())
}
