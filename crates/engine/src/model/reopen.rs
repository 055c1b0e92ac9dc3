//! Reopening a failed run: which steps run again, which effects are kept, and who must allow an effect to be
//! repeated.

use super::command::changed;
use super::{
    Actor, CommandResult, EffectClass, EffectKey, EventKind, Evidence, FailureClass, JournalEntry,
    JournalEvent, Occurrence, PendingRequest, Refusal, RulingError, RunHead, RunId, RunState, RunStatus,
    RunningState, StepId, StepKind, StepRecord, StepState, StepStatus, Timestamp, Version, check_authority,
};

/// A person's permission to repeat effects that have happened. It needs the same authority as the ruling
/// `did_not_happen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatPermission {
    /// The steps whose effects may be repeated. No others may.
    pub effects: Vec<StepId>,
    /// The person who allows it.
    pub by: Actor,
    /// A second person who agrees, where one is needed.
    pub seconded_by: Option<Actor>,
    /// The reason.
    pub reason: String,
}

/// Checks the authority behind a permission.
pub fn check_repeat_permission(repeat: &RepeatPermission) -> Result<(), RulingError> {
    let what = "running an effect again that has happened";
    check_authority(&repeat.by, repeat.seconded_by.as_ref(), &repeat.reason, Some(what))
}

/// Consequences of a retry for the effects of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPlan {
    /// Version of the run that the plan applies to.
    pub version: Version,
    /// Effects that have happened and are kept.
    pub stays_done: Vec<PlannedEffect>,
    /// Steps with an effect that run again.
    pub runs_again: Vec<PlannedEffect>,
}

impl RetryPlan {
    /// The steps that a [`RepeatPermission`] must name.
    pub fn repeats(&self) -> Vec<StepId> {
        let repeated = self.runs_again.iter().filter(|effect| effect.happens_again);
        repeated.map(|effect| effect.step.clone()).collect()
    }
}

/// One effect in a [`RetryPlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEffect {
    /// Id of the step.
    pub step: StepId,
    /// Key that the provider received.
    pub key: EffectKey,
    /// Class of the effect. Absent for a child, whose effects are its own.
    pub class: Option<EffectClass>,
    /// Status of the step.
    pub status: StepStatus,
    /// The child that the step waited for. If the step runs again, it starts a new child, and all effects of
    /// the child happen again.
    pub child: Option<RunId>,
    /// True if the effect happens a second time if the step runs again. False for effects that run again
    /// under the same key, and for effects that did not happen.
    pub happens_again: bool,
}

/// Plans a retry. `steps` are the records of the run.
pub fn plan_retry(head: &RunHead, from: Option<&StepId>, steps: &[StepRecord]) -> Result<RetryPlan, Refusal> {
    let rerun = rerun_of(head, from, steps)?;
    let is_rerun = |step: &StepRecord| rerun.iter().any(|again| again.id == step.id);
    let planned = |step: &StepRecord| PlannedEffect {
        step: step.id.clone(),
        key: EffectKey::new(head.id(), head.generation, &step.id),
        class: step.kind.effect_class(),
        status: step.state.status(),
        child: step.child,
        happens_again: is_rerun(step) && would_repeat(step),
    };
    let mut effects: Vec<&StepRecord> = steps.iter().filter(|step| has_effect(step)).collect();
    effects.sort_by_key(|step| step.started_version);
    let is_done = |step: &StepRecord| step.state.status() == StepStatus::Completed;
    let stays = effects.iter().filter(|step| is_done(step) && !is_rerun(step));
    let again = effects.iter().filter(|step| is_rerun(step));
    Ok(RetryPlan {
        version: head.version,
        stays_done: stays.map(|step| planned(step)).collect(),
        runs_again: again.map(|step| planned(step)).collect(),
    })
}

/// Returns true if the step can affect the outside world. A child does whatever its own steps do.
fn has_effect(step: &StepRecord) -> bool {
    step.kind.effect_class().is_some() || step.kind == StepKind::Child
}

/// Returns true if the effect would happen a second time if the step ran again. An idempotent effect runs under the
/// same key.
fn would_repeat(step: &StepRecord) -> bool {
    let is_done = step.state.status() == StepStatus::Completed;
    let is_kept_by_key = step.kind.effect_class() == Some(EffectClass::Idempotent);
    is_done && has_effect(step) && !is_kept_by_key
}

/// Reopens a failed run.
pub(super) fn reopen(
    head: &RunHead,
    from: Option<&StepId>,
    repeat: Option<&RepeatPermission>,
    steps: &[StepRecord],
    now: Timestamp,
) -> Result<CommandResult, Refusal> {
    let rerun = rerun_of(head, from, steps)?;
    let allowed = |step: &StepRecord| repeat.filter(|repeat| repeat.effects.contains(&step.id));
    let mut forbidden: Vec<&StepRecord> =
        rerun.iter().copied().filter(|step| would_repeat(step) && allowed(step).is_none()).collect();
    if !forbidden.is_empty() {
        forbidden.sort_by_key(|step| step.started_version);
        return Err(Refusal::WouldRepeat(forbidden.iter().map(|step| step.id.clone()).collect()));
    }
    let mut notes: Vec<JournalEntry> = Vec::new();
    for step in &rerun {
        let permission = allowed(step).filter(|_| would_repeat(step));
        notes.extend(permission.map(|repeat| permitted(head, step, repeat, now)));
        notes.extend(superseded(head, step, now));
    }
    notes.sort_by(|a, b| a.step.cmp(&b.step));
    let mut steered = changed(head, EventKind::Retried, from.map(|id| format!("from {id}")), now);
    steered.head.state = RunState::Running(RunningState::Ready { due_at: now });
    steered.head.asked = PendingRequest::Nothing;
    steered.head.stalls = 0;
    steered.rerun = rerun.iter().map(|step| step.id.clone()).collect();
    steered.notes = notes;
    Ok(steered)
}

/// The steps that run again.
fn rerun_of<'a>(
    head: &RunHead,
    from: Option<&StepId>,
    steps: &'a [StepRecord],
) -> Result<Vec<&'a StepRecord>, Refusal> {
    if head.status() != RunStatus::Failed {
        return Err(Refusal::NotFailed(head.status()));
    }
    if steps.iter().any(|step| step.kind == StepKind::Undo) {
        return Err(Refusal::Undone);
    }
    let from_version = match from {
        None => None,
        Some(id) => {
            let step =
                steps.iter().find(|step| step.id == *id).ok_or_else(|| Refusal::NoSuchStep(id.clone()))?;
            Some(step.started_version)
        }
    };
    let has_failed = |step: &StepRecord| step.state.status() == StepStatus::Failed;
    // If other steps began after a failure, the code has handled it. Without the record of the failure, the
    // code could take another path than the later records.
    let is_last = |step: &StepRecord| !steps.iter().any(|other| other.started_version > step.changed_version);
    let none_is_last = from.is_none() && !steps.iter().any(|step| has_failed(step) && is_last(step));
    // Short steps are recorded when they end, so a step recorded later may have been running at the same
    // time.
    let is_overtaken = |step: &StepRecord| {
        none_is_last && !steps.iter().any(|other| Some(other.started_at) > failed_at(step))
    };
    let runs_again = |step: &&StepRecord| {
        let given_up = step.state.status() == StepStatus::Cancelled;
        let failed = has_failed(step) && (is_last(step) || is_overtaken(step));
        given_up || failed || from_version.is_some_and(|from| step.started_version >= from)
    };
    // An effect that was abandoned in doubt may have happened, like one still in doubt.
    let is_in_doubt = |step: &&StepRecord| match &step.state {
        StepState::InDoubt { .. } => true,
        StepState::Failed { failure, .. } => {
            step.kind == StepKind::Claimed && failure.class() == FailureClass::Unknown
        }
        _ => false,
    };
    if let Some(step) = steps.iter().filter(runs_again).find(is_in_doubt) {
        return Err(Refusal::InDoubt(step.id.clone()));
    }
    Ok(steps.iter().filter(runs_again).collect())
}

/// Journal entry that preserves the evidence about an effect whose record is deleted.
fn superseded(head: &RunHead, step: &StepRecord, now: Timestamp) -> Option<JournalEntry> {
    // The effect of a cancelled step may have been entered. If it was not, the journal says so.
    let occurrence = Occurrence::from_state(&step.state).unwrap_or(Occurrence::MayHaveHappened);
    let (run, generation, attempt) = (head.id(), head.generation, step.attempts);
    let mut evidence = Evidence::for_step(run, generation, &step.id, step.kind, attempt, occurrence)?;
    let what = JournalEvent::Superseded { attempt, occurrence: evidence.occurrence };
    // After more than one attempt the record does not tell which of them made the effect. The journal does, where that is known.
    if attempt > 1 && evidence.class != EffectClass::Transactional && occurrence == Occurrence::Happened {
        evidence.occurrence = Occurrence::MayHaveHappened;
    }
    Some(JournalEntry { evidence: Some(evidence), ..note_on(head, step, now, what) })
}

/// Journal entry of the permission, for the ledger and the audit log.
fn permitted(head: &RunHead, step: &StepRecord, repeat: &RepeatPermission, now: Timestamp) -> JournalEntry {
    let what = JournalEvent::RepeatAllowed {
        attempt: step.attempts,
        seconded_by: repeat.seconded_by.clone(),
        reason: repeat.reason.clone(),
    };
    JournalEntry { by: Some(repeat.by.clone()), ..note_on(head, step, now, what) }
}

fn note_on(head: &RunHead, step: &StepRecord, now: Timestamp, what: JournalEvent) -> JournalEntry {
    JournalEntry {
        workspace: head.facts.workspace.clone(),
        run: head.id(),
        generation: head.generation,
        step: Some(step.id.clone()),
        at: now,
        fence: step.fence,
        owner: None,
        by: None,
        what,
        evidence: None,
    }
}

fn failed_at(step: &StepRecord) -> Option<Timestamp> {
    match step.state {
        StepState::Failed { at, .. } => Some(at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{closed, step};
    use crate::model::{Ending, Failure, Role, RunCommand, decide_command};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn retry(
        from: Option<&str>,
        repeat: Option<RepeatPermission>,
        steps: &[StepRecord],
    ) -> Result<CommandResult, Refusal> {
        let command = RunCommand::Retry { from: from.map(StepId::from_stored), repeat: repeat.map(Box::new) };
        decide_command(&closed(Ending::Failed), &command, steps, NOW)
    }

    fn rerun(from: Option<&str>, steps: &[StepRecord]) -> Result<String, Refusal> {
        let steered = retry(from, None, steps)?;
        Ok(steered.rerun.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_retry_repeats_the_failed_steps_and_the_named_one() {
        let steps = [step("a", 2, true), step("b", 4, true), step("c", 6, false)];
        assert_eq!(rerun(None, &steps).unwrap(), "c");
        assert_eq!(rerun(Some("b"), &steps).unwrap(), "b c");
        assert!(matches!(rerun(Some("x"), &steps), Err(Refusal::NoSuchStep(_))));
    }

    /// Otherwise the records of what the code did after the failure would lack their cause.
    #[test]
    fn a_failure_that_was_dealt_with_stands() {
        let rerun = |steps: &[StepRecord]| rerun(None, steps).unwrap();
        assert_eq!(rerun(&[step("a", 2, false), step("b", 4, true), step("c", 6, false)]), "c");
        // Of two concurrent steps, the one that failed may have been overtaken.
        assert_eq!(rerun(&[step("a", 2, false), step("b", 4, true)]), "a");
        // A step that began after the failure shows that the failure was handled and that the code itself
        // failed the run.
        assert_eq!(rerun(&[step("a", 2, false), StepRecord { started_at: NOW, ..step("b", 4, true) }]), "");
        let given_up = StepState::Cancelled { at: NOW };
        assert_eq!(rerun(&[step("a", 2, true), StepRecord { state: given_up, ..step("b", 4, true) }]), "b");
    }

    /// A retry must not repeat an effect that was abandoned because it may have happened.
    #[test]
    fn an_effect_that_was_given_up_in_doubt_is_not_retried() {
        let wire = |failure| StepRecord {
            kind: StepKind::Claimed,
            state: StepState::Failed { at: NOW, failure },
            ..step("wire", 4, false)
        };
        let refused =
            retry(None, None, &[wire(Failure::unknown("given up").with_code("abandoned"))]).unwrap_err();
        assert_eq!(refused, Refusal::InDoubt(StepId::from_stored("wire")));
        assert!(retry(None, None, &[wire(Failure::permanent("no money"))]).is_ok(), "it did not happen");
    }

    #[test]
    fn a_run_whose_steps_were_undone_is_not_retried() {
        let undo = StepRecord { kind: StepKind::Undo, ..step("a~undo", 4, true) };
        assert_eq!(retry(None, None, &[undo]).unwrap_err(), Refusal::Undone);
    }

    /// A fax that was sent, a database entry, a charge under its key, a child, and a step that failed after
    /// them.
    fn faxed() -> [StepRecord; 5] {
        [
            StepRecord { kind: StepKind::Claimed, ..step("fax", 2, true) },
            StepRecord { kind: StepKind::Transaction, ..step("book", 4, true) },
            step("charge", 6, true),
            StepRecord { kind: StepKind::Child, child: Some(RunId::from_u128(9)), ..step("ship", 8, true) },
            step("mail", 10, false),
        ]
    }

    fn allow(effects: &[&str], role: Role) -> RepeatPermission {
        RepeatPermission {
            effects: effects.iter().map(|step| StepId::from_stored(step)).collect(),
            by: Actor::new("ada", role),
            seconded_by: None,
            reason: "the paper was empty".into(),
        }
    }

    fn ids(names: &[&str]) -> Vec<StepId> {
        names.iter().map(|name| StepId::from_stored(name)).collect()
    }

    #[test]
    fn effects_that_have_happened_run_again_only_if_each_is_named() {
        let steps = faxed();
        assert!(retry(None, None, &steps).is_ok(), "nothing that is done runs again");
        let refused = retry(Some("fax"), None, &steps).unwrap_err();
        assert_eq!(refused, Refusal::WouldRepeat(ids(&["fax", "book", "ship"])));
        let some = allow(&["fax", "book"], Role::Manager);
        assert_eq!(retry(Some("fax"), Some(some), &steps).unwrap_err(), Refusal::WouldRepeat(ids(&["ship"])));
        assert!(retry(Some("charge"), Some(allow(&["ship"], Role::Manager)), &steps).is_ok());
        let all = retry(Some("fax"), Some(allow(&["fax", "book", "ship"], Role::Manager)), &steps).unwrap();
        assert_eq!(all.rerun.len(), 5);
        let allowed = |note: &&JournalEntry| {
            matches!(note.what, JournalEvent::RepeatAllowed { .. }) && note.by.is_some()
        };
        assert_eq!(all.notes.iter().filter(allowed).count(), 3, "{:?}", all.notes);
        let knows = |note: &&JournalEntry| {
            note.evidence.as_ref().is_some_and(|evidence| evidence.occurrence == Occurrence::Happened)
        };
        assert_eq!(all.notes.iter().filter(knows).count(), 3, "fax, book and charge have happened once");
    }

    #[test]
    fn a_plan_names_what_stays_done_and_what_happens_again() {
        let plan = plan_retry(&closed(Ending::Failed), Some(&StepId::from_stored("book")), &faxed()).unwrap();
        let named = |effects: &[PlannedEffect]| -> Vec<StepId> {
            effects.iter().map(|effect| effect.step.clone()).collect()
        };
        assert_eq!(named(&plan.stays_done), ids(&["fax"]));
        assert_eq!(named(&plan.runs_again), ids(&["book", "charge", "ship", "mail"]));
        assert_eq!(plan.repeats(), ids(&["book", "ship"]));
        assert_eq!(plan.version, closed(Ending::Failed).version);
    }

    #[test]
    fn to_let_an_effect_happen_again_takes_a_manager_or_two_people_and_a_reason() {
        assert!(check_repeat_permission(&allow(&["fax"], Role::Manager)).is_ok());
        let alone = allow(&["fax"], Role::Operator);
        assert!(matches!(check_repeat_permission(&alone), Err(RulingError::NeedsManager(_))));
        let second = Some(Actor::new("bob", Role::Operator));
        assert!(check_repeat_permission(&RepeatPermission { seconded_by: second, ..alone.clone() }).is_ok());
        let silent = RepeatPermission { reason: " ".into(), ..allow(&["fax"], Role::Manager) };
        assert_eq!(check_repeat_permission(&silent), Err(RulingError::NoReason));
    }
}
