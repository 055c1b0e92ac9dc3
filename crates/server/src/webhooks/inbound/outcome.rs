//! Recorded outcome of an event, and the resulting status. Pure.

use hapax_engine::model::{InboundEvent, InboundEventStatus, Timestamp};
use serde::{Deserialize, Serialize};

use crate::limits::MAX_EARLIER_ACTIONS;

/// Outcome of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// Why no action was considered, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// Did that fail, rather than match nothing?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) failed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<ActionOutcome>,
    /// Actions of earlier versions of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<ActionOutcome>,
}

/// Outcome of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActionOutcome {
    pub(super) action: String,
    pub(super) result: ActionResult,
    /// Name that identifies the action: the key of a promise or a run, or the id of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Expiry of a kept settlement, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_until: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) promise_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<String>,
}

/// Result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ActionResult {
    /// It is done, now or earlier.
    Applied,
    /// Its `when` is false.
    Skipped,
    /// Its target does not exist.
    Unmatched,
    /// It failed.
    Failed,
}

/// Work that earlier processing has left for an action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EarlierOutcome<'a> {
    /// All of it.
    Open {
        /// May a settlement be kept for a future promise? An event is kept at most once, so that an
        /// old one never settles a later promise.
        may_keep: bool,
    },
    /// Kept for a promise that did not exist.
    KeptEarly {
        /// Expiry of the kept settlement.
        until: Timestamp,
    },
    /// None. Its name may have been forgotten, so the action must not be repeated.
    Done(&'a ActionOutcome),
}

impl Outcome {
    /// Outcome of earlier processing; empty if there was none.
    pub(super) fn from_event(hook: &InboundEvent) -> Self {
        let known = hook.outcome.as_ref().and_then(|outcome| outcome.to().ok());
        known.unwrap_or_default()
    }

    /// Work left for an action with the name `name`.
    pub(super) fn before(&self, action: &str, name: &str) -> EarlierOutcome<'_> {
        let known = || self.actions.iter().chain(&self.earlier);
        let is_it = |one: &&ActionOutcome| {
            one.action == action && one.name.as_deref().is_none_or(|known| known == name)
        };
        if let Some(done) = known().filter(is_it).find(|one| one.result == ActionResult::Applied) {
            return EarlierOutcome::Done(done);
        }
        if let Some(until) = known().filter(is_it).find_map(|one| one.kept_until) {
            return EarlierOutcome::KeptEarly { until: Timestamp::from_millis(until) };
        }
        let is_settled = |one: &ActionOutcome| {
            one.action == "settle" && matches!(one.result, ActionResult::Applied | ActionResult::Unmatched)
        };
        EarlierOutcome::Open { may_keep: !known().any(is_settled) }
    }

    /// Adds earlier actions that this outcome lacks, so that they stay known.
    #[must_use]
    pub(super) fn after(mut self, before: Outcome) -> Self {
        let is_worth_it =
            |one: &ActionOutcome| matches!(one.result, ActionResult::Applied | ActionResult::Unmatched);
        for one in before.actions.into_iter().chain(before.earlier).filter(is_worth_it) {
            let is_it = |other: &ActionOutcome| other.action == one.action && other.name == one.name;
            if self.earlier.len() < MAX_EARLIER_ACTIONS
                && !self.actions.iter().chain(&self.earlier).any(is_it)
            {
                self.earlier.push(one);
            }
        }
        self
    }

    /// No action matched the event.
    pub(super) fn ignored(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), ..Outcome::default() }
    }

    /// The actions of the event could not be determined.
    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), failed: true, ..Outcome::default() }
    }

    /// Status of the event: the worst of its actions, because a person must look at it.
    pub(super) fn status(&self) -> InboundEventStatus {
        let any = |result| self.actions.iter().any(|action| action.result == result);
        match () {
            () if self.failed || any(ActionResult::Failed) => InboundEventStatus::Failed,
            () if any(ActionResult::Unmatched) => InboundEventStatus::Unmatched,
            () if any(ActionResult::Applied) => InboundEventStatus::Applied,
            () => InboundEventStatus::Ignored,
        }
    }
}

impl ActionOutcome {
    pub(super) fn new(action: &str, result: ActionResult) -> Self {
        ActionOutcome {
            action: action.to_owned(),
            result,
            name: None,
            kept_until: None,
            detail: None,
            promise_id: None,
            run_id: None,
        }
    }

    #[must_use]
    pub(super) fn named(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    #[must_use]
    pub(super) fn kept(mut self, until: Timestamp) -> Self {
        self.kept_until = Some(until.as_millis());
        self
    }

    #[must_use]
    pub(super) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub(super) fn with_promise(mut self, promise: impl ToString) -> Self {
        self.promise_id = Some(promise.to_string());
        self
    }

    #[must_use]
    pub(super) fn with_run(mut self, run: impl ToString) -> Self {
        self.run_id = Some(run.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(results: &[ActionResult]) -> InboundEventStatus {
        let actions = results.iter().map(|result| ActionOutcome::new("start", *result)).collect();
        Outcome { actions, ..Outcome::default() }.status()
    }

    #[test]
    fn an_event_is_what_the_worst_of_its_actions_is() {
        use ActionResult::{Applied, Failed, Skipped, Unmatched};
        assert_eq!(of(&[Applied, Skipped]), InboundEventStatus::Applied);
        assert_eq!(of(&[Applied, Unmatched]), InboundEventStatus::Unmatched);
        assert_eq!(of(&[Unmatched, Failed, Applied]), InboundEventStatus::Failed);
        assert_eq!(of(&[Skipped, Skipped]), InboundEventStatus::Ignored);
        assert_eq!(Outcome::failed("why").status(), InboundEventStatus::Failed);
        assert_eq!(Outcome::ignored("why").status(), InboundEventStatus::Ignored);
    }

    fn settled(result: ActionResult, key: &str) -> ActionOutcome {
        ActionOutcome::new("settle", result).named(key.into())
    }

    #[test]
    fn a_finished_action_is_recognized_by_name_after_its_source_changed() {
        let done = settled(ActionResult::Applied, "a");
        let first = Outcome { actions: vec![done.clone()], ..Outcome::default() };
        assert_eq!(first.before("settle", "a"), EarlierOutcome::Done(&done));
        assert_eq!(first.before("start", "a"), EarlierOutcome::Open { may_keep: false });
        assert_eq!(
            first.before("settle", "b"),
            EarlierOutcome::Open { may_keep: false },
            "it was for a promise before"
        );
        assert_eq!(Outcome::default().before("settle", "a"), EarlierOutcome::Open { may_keep: true });
        let mended = Outcome::failed("the filter cannot tell").after(first);
        assert_eq!(mended.status(), InboundEventStatus::Failed);
        let again = Outcome { actions: vec![settled(ActionResult::Failed, "b")], ..Outcome::default() };
        assert_eq!(again.after(mended).before("settle", "a"), EarlierOutcome::Done(&done));
    }

    #[test]
    fn kept_settlements_keep_their_expiry_and_failed_actions_run_again() {
        let until = Timestamp::from_millis(7);
        let actions =
            vec![settled(ActionResult::Unmatched, "a").kept(until), settled(ActionResult::Failed, "c")];
        let outcome = Outcome { actions, ..Outcome::default() };
        assert_eq!(outcome.before("settle", "a"), EarlierOutcome::KeptEarly { until });
        assert_eq!(outcome.before("settle", "c"), EarlierOutcome::Open { may_keep: false });
    }

    #[test]
    fn remembered_actions_are_bounded() {
        let mut outcome = Outcome::default();
        for number in 0..2 * MAX_EARLIER_ACTIONS {
            let actions = vec![settled(ActionResult::Applied, &number.to_string())];
            outcome = Outcome { actions, ..Outcome::default() }.after(outcome);
        }
        assert_eq!(outcome.earlier.len(), MAX_EARLIER_ACTIONS);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let applied = ActionOutcome::new("settle", ActionResult::Applied).with_promise("p").because("done");
        let outcome = Outcome { actions: vec![applied], ..Outcome::default() };
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    }
}
