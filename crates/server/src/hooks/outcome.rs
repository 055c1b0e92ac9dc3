//! What was done about an event, as it is kept; and what that makes of the event. Pure.

use hapax_engine::model::HookStatus;
use serde::{Deserialize, Serialize};

/// What was done about an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// Why no action was looked at, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// Was that because nobody wanted it, or because nobody could tell?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) failed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<ActionOutcome>,
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActionOutcome {
    pub(super) action: String,
    pub(super) result: ActionResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) promise_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<String>,
}

/// The same in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ActionResult {
    /// It is done, now or before.
    Applied,
    /// Its `when` does not hold.
    Skipped,
    /// What it is for is not there.
    Unmatched,
    /// It could not be done.
    Failed,
}

impl Outcome {
    /// Nobody wanted the event.
    pub(super) fn ignored(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), failed: false, actions: Vec::new() }
    }

    /// Nobody can tell what is to be done about the event.
    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), failed: true, actions: Vec::new() }
    }

    /// What that makes of the event: the worst of its actions, because somebody has to look at it.
    pub(super) fn status(&self) -> HookStatus {
        let any = |result| self.actions.iter().any(|action| action.result == result);
        match () {
            () if self.failed || any(ActionResult::Failed) => HookStatus::Failed,
            () if any(ActionResult::Unmatched) => HookStatus::Unmatched,
            () if any(ActionResult::Applied) => HookStatus::Applied,
            () => HookStatus::Ignored,
        }
    }
}

impl ActionOutcome {
    pub(super) fn new(action: &str, result: ActionResult) -> Self {
        ActionOutcome { action: action.to_owned(), result, detail: None, promise_id: None, run_id: None }
    }

    #[must_use]
    pub(super) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub(super) fn of_promise(mut self, promise: impl ToString) -> Self {
        self.promise_id = Some(promise.to_string());
        self
    }

    #[must_use]
    pub(super) fn of_run(mut self, run: impl ToString) -> Self {
        self.run_id = Some(run.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(results: &[ActionResult]) -> HookStatus {
        let actions = results.iter().map(|result| ActionOutcome::new("start", *result)).collect();
        Outcome { actions, ..Outcome::default() }.status()
    }

    #[test]
    fn an_event_is_what_the_worst_of_its_actions_is() {
        use ActionResult::{Applied, Failed, Skipped, Unmatched};
        assert_eq!(of(&[Applied, Skipped]), HookStatus::Applied);
        assert_eq!(of(&[Applied, Unmatched]), HookStatus::Unmatched);
        assert_eq!(of(&[Unmatched, Failed, Applied]), HookStatus::Failed);
        assert_eq!(of(&[Skipped, Skipped]), HookStatus::Ignored);
        assert_eq!(Outcome::failed("why").status(), HookStatus::Failed);
        assert_eq!(Outcome::ignored("why").status(), HookStatus::Ignored);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let applied = ActionOutcome::new("settle", ActionResult::Applied).of_promise("p").because("done");
        let outcome = Outcome { actions: vec![applied], ..Outcome::default() };
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    }
}
