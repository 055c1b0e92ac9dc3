//! Names of workflows, steps, promises and signals.

use std::fmt;
use std::sync::Arc;

use super::Invalid;
use crate::limits::MAX_NAME_CHARS;

/// A name of 1 to 128 characters from `A-Z a-z 0-9 . _ -`. It reads the same in logs, URLs and every store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks `text`. `what` says in the error what the name is for.
    pub fn new(what: &'static str, text: &str) -> Result<Self, Invalid> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.bytes().all(allowed) {
            return Err(Invalid::Name { what, given: excerpt(text) });
        }
        Ok(Name(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A workflow by name and version. A run is pinned to the version it started with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowRef {
    /// Name of the workflow.
    pub name: Name,
    /// Version of its code, from 1.
    pub version: u32,
}

impl fmt::Display for WorkflowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.name, self.version)
    }
}

/// Enough of a rejected text to recognise it. Inputs are unbounded, so never all of it.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        for good in ["a", "process-order", "v1.2_x", &"n".repeat(128)] {
            assert!(Name::new("workflow name", good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a/b", "a#2", "é", "nul\0", &"n".repeat(129)] {
            assert!(matches!(Name::new("workflow name", bad), Err(Invalid::Name { .. })), "{bad:?}");
        }
    }
}
