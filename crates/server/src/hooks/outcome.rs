//! What was done about an event, as it is kept; and what that makes of the event. Pure.

use hapax_engine::model::{InboundEvent, InboundEventStatus, Timestamp};
use serde::{Deserialize, Serialize};

use crate::limits::MAX_EARLIER_ACTIONS;

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
    /// What was done by the source as it was before, when the event was processed then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<ActionOutcome>,
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActionOutcome {
    pub(super) action: String,
    pub(super) result: ActionResult,
    /// What it was done under, by which it is known again: the key of a promise or a run, the id of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Until when a settlement is kept for its promise, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_until: Option<i64>,
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

/// What processing an event before has left to do of an action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before<'a> {
    /// Everything.
    Open {
        /// May a settlement be kept for a promise that is not there yet? An event is kept for one once, so that an old one never settles
        /// what is promised later.
        may_keep: bool,
    },
    /// It was kept for a promise that was not there, until then.
    Kept {
        /// Until when.
        until: Timestamp,
    },
    /// Nothing. What it was done under may be forgotten, so it must not be tried.
    Done(&'a ActionOutcome),
}

impl Outcome {
    /// What is known of an event that was processed before; nothing, if it was not.
    pub(super) fn of_hook(hook: &InboundEvent) -> Self {
        let known = hook.outcome.as_ref().and_then(|outcome| outcome.to().ok());
        known.unwrap_or_default()
    }

    /// What it leaves to do of an action that is done under `name`.
    pub(super) fn before(&self, action: &str, name: &str) -> Before<'_> {
        let known = || self.actions.iter().chain(&self.earlier);
        let is_it = |one: &&ActionOutcome| {
            one.action == action && one.name.as_deref().is_none_or(|known| known == name)
        };
        if let Some(done) = known().filter(is_it).find(|one| one.result == ActionResult::Applied) {
            return Before::Done(done);
        }
        if let Some(until) = known().filter(is_it).find_map(|one| one.kept_until) {
            return Before::Kept { until: Timestamp::from_millis(until) };
        }
        let is_settled = |one: &ActionOutcome| {
            one.action == "settle" && matches!(one.result, ActionResult::Applied | ActionResult::Unmatched)
        };
        Before::Open { may_keep: !known().any(is_settled) }
    }

    /// With what was done before and is not told of here, so that it stays known.
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

    /// Nobody wanted the event.
    pub(super) fn ignored(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), ..Outcome::default() }
    }

    /// Nobody can tell what is to be done about the event.
    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Outcome { detail: Some(detail.into()), failed: true, ..Outcome::default() }
    }

    /// What that makes of the event: the worst of its actions, because somebody has to look at it.
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
    fn what_was_done_under_a_name_is_known_by_it_whatever_the_source_said_in_between() {
        let done = settled(ActionResult::Applied, "a");
        let first = Outcome { actions: vec![done.clone()], ..Outcome::default() };
        assert_eq!(first.before("settle", "a"), Before::Done(&done));
        assert_eq!(first.before("start", "a"), Before::Open { may_keep: false });
        assert_eq!(
            first.before("settle", "b"),
            Before::Open { may_keep: false },
            "it was for a promise before"
        );
        assert_eq!(Outcome::default().before("settle", "a"), Before::Open { may_keep: true });
        let mended = Outcome::failed("the filter cannot tell").after(first);
        assert_eq!(mended.status(), InboundEventStatus::Failed);
        let again = Outcome { actions: vec![settled(ActionResult::Failed, "b")], ..Outcome::default() };
        assert_eq!(again.after(mended).before("settle", "a"), Before::Done(&done));
    }

    #[test]
    fn what_was_kept_is_known_with_its_time_and_what_failed_is_to_be_done() {
        let until = Timestamp::from_millis(7);
        let actions =
            vec![settled(ActionResult::Unmatched, "a").kept(until), settled(ActionResult::Failed, "c")];
        let outcome = Outcome { actions, ..Outcome::default() };
        assert_eq!(outcome.before("settle", "a"), Before::Kept { until });
        assert_eq!(outcome.before("settle", "c"), Before::Open { may_keep: false });
    }

    #[test]
    fn what_is_remembered_of_the_past_is_bounded() {
        let mut outcome = Outcome::default();
        for number in 0..2 * MAX_EARLIER_ACTIONS {
            let actions = vec![settled(ActionResult::Applied, &number.to_string())];
            outcome = Outcome { actions, ..Outcome::default() }.after(outcome);
        }
        assert_eq!(outcome.earlier.len(), MAX_EARLIER_ACTIONS);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let applied = ActionOutcome::new("settle", ActionResult::Applied).of_promise("p").because("done");
        let outcome = Outcome { actions: vec![applied], ..Outcome::default() };
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    }
}
