//! Checks the input of a run before anything is stored.

use std::fmt;
use std::sync::Arc;

use crate::model::Payload;

/// One rule that an input breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputProblem {
    /// JSON Pointer to the wrong or missing value, relative to the input; empty for the input itself.
    pub path: String,
    /// The rule, as the schema spells it: `required`, `type`, `minimum` …
    pub rule: String,
    /// Description of what the schema expects there.
    pub message: String,
}

type Check = dyn Fn(&Payload) -> Result<(), Vec<InputProblem>> + Send + Sync;

/// The check that a workflow applies to the input of each new run.
///
/// The engine calls it for every start and for every child, before the store hears of the run. It must be pure and quick: it runs
/// where the start was called.
#[derive(Clone)]
pub struct InputCheck(Arc<Check>);

impl InputCheck {
    /// Wraps a function that returns all problems of an input.
    pub fn new(check: impl Fn(&Payload) -> Result<(), Vec<InputProblem>> + Send + Sync + 'static) -> Self {
        InputCheck(Arc::new(check))
    }

    pub(crate) fn check(&self, input: &Payload) -> Result<(), Vec<InputProblem>> {
        (self.0)(input)
    }
}

impl fmt::Debug for InputCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InputCheck")
    }
}

/// Describes the first problem and counts the others, for an error text.
pub(crate) fn summarize(problems: &[InputProblem]) -> String {
    let Some(first) = problems.first() else { return "it was refused".into() };
    let path = if first.path.is_empty() { "the input" } else { &first.path };
    match problems.len() {
        1 => format!("{path} {}", first.message),
        many => format!("{path} {} (and {} more)", first.message, many - 1),
    }
}
