//! How callers name the workflow to start.

use std::fmt;
use std::str::FromStr;

use super::Invalid;
use super::name::{Name, WorkflowRef, excerpt};

/// The workflow to start: `order` is its latest version, `order@2` is version 2.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowSelector {
    /// The workflow's name.
    pub name: Name,
    /// The version; `None` is the latest.
    pub version: Option<u32>,
}

impl WorkflowSelector {
    /// Returns true if it names `workflow`, in this version or in any.
    pub fn selects(&self, workflow: &WorkflowRef) -> bool {
        self.name == workflow.name && self.version.is_none_or(|version| version == workflow.version)
    }
}

impl From<WorkflowRef> for WorkflowSelector {
    fn from(WorkflowRef { name, version }: WorkflowRef) -> Self {
        WorkflowSelector { name, version: Some(version) }
    }
}

impl FromStr for WorkflowSelector {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(WorkflowSelector { name: Name::new("workflow name", text)?, version: None });
        };
        // One spelling per version: no sign, no leading zero.
        let is_plain = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        match version.parse() {
            Ok(version) if is_plain => {
                Ok(WorkflowSelector { name: Name::new("workflow name", name)?, version: Some(version) })
            }
            _ => Err(Invalid::Id { what: "workflow version", given: excerpt(version) }),
        }
    }
}

impl fmt::Display for WorkflowSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_name_with_or_without_a_version() {
        for text in ["order", "order@1", "a.b_c-d@4294967295"] {
            assert_eq!(text.parse::<WorkflowSelector>().unwrap().to_string(), text);
        }
        let selector: WorkflowSelector = "order@2".parse().unwrap();
        assert_eq!((selector.name.as_str(), selector.version), ("order", Some(2)));
    }

    #[test]
    fn a_malformed_selector_is_refused() {
        for text in [
            "",
            "@1",
            "order@",
            "order@0",
            "order@01",
            "order@+1",
            "order@1@2",
            "order@latest",
            "a b",
            "order@4294967296",
        ] {
            assert!(text.parse::<WorkflowSelector>().is_err(), "{text:?}");
        }
    }
}
