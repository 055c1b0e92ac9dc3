//! Report of the suite.

use serde::Serialize;

/// A verdict for each clause of the profile, in the order of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One verdict per clause.
    pub clauses: Vec<Verdict>,
}

/// Result of one clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Its stable name.
    pub id: &'static str,
    /// The subject of the clause.
    pub title: &'static str,
    /// The rule.
    pub says: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// Verdict. In JSON its fields are inlined.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Verdict on a clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum Outcome {
    /// The service follows the rule.
    Passed,
    /// The service breaks the rule.
    Failed {
        /// Expected behaviour.
        expected: String,
        /// Observed behaviour.
        saw: String,
    },
    /// The clause was not checked.
    Skipped {
        /// Reason for skipping.
        why: String,
    },
}

impl Report {
    /// Returns true if no clause failed and at least one passed: a report with only skipped clauses proves nothing.
    pub fn is_passed(&self) -> bool {
        let failed = |verdict: &Verdict| matches!(verdict.outcome, Outcome::Failed { .. });
        let passed = |verdict: &Verdict| verdict.outcome == Outcome::Passed;
        !self.clauses.iter().any(failed) && self.clauses.iter().any(passed)
    }

    /// The ids of the clauses that failed.
    pub fn list_failed(&self) -> Vec<&'static str> {
        let failed = |verdict: &&Verdict| matches!(verdict.outcome, Outcome::Failed { .. });
        self.clauses.iter().filter(failed).map(|verdict| verdict.id).collect()
    }
}
