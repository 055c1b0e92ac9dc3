//! The id of a doubt: `RUN/STEP` for a step, `op_…` for an operation.

use std::fmt;
use std::str::FromStr;

use hapax::model::StepId;
use hapax::{OperationId, RunId};

/// Names one doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DoubtId {
    Step { run: RunId, step: StepId },
    Operation(OperationId),
}

impl fmt::Display for DoubtId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DoubtId::Step { run, step } => write!(f, "{run}/{step}"),
            DoubtId::Operation(id) => write!(f, "{id}"),
        }
    }
}

impl FromStr for DoubtId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "use the id that `hapax doubts` shows: run_…/STEP for a step, op_… for an operation".to_owned()
        };
        match text.split_once('/') {
            Some((run, step)) if !step.trim().is_empty() => {
                let run = run.parse().map_err(|_| wrong())?;
                Ok(DoubtId::Step { run, step: StepId::from_stored(step) })
            }
            Some(_) => Err(wrong()),
            None => text.parse().map(DoubtId::Operation).map_err(|_| wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_step_or_an_operation() {
        let run = "run_00000000000000000000000000000001";
        for text in [format!("{run}/wire"), format!("{run}/each/0/wire"), run.replace("run_", "op_")] {
            assert_eq!(text.parse::<DoubtId>().unwrap().to_string(), text);
        }
        for text in ["", "wire", run, &format!("{run}/"), "run_1/wire"] {
            assert!(text.parse::<DoubtId>().unwrap_err().contains("hapax doubts"), "{text}");
        }
    }
}
