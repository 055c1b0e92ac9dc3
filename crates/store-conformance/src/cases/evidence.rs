//! Evidence about attempts at effects, and the counts of effects that happened twice or may have.

use hapax_engine::model::{
    Actor, EffectClass, EffectKey, EffectTally, Evidence, Failure, JournalEntry, JournalEvent, Occurrence,
    RepeatPermission, Role, RunCommand, RunHead, StepId, StepKind, StepState, StepTransition, TallyCount,
    WorkspaceId,
};
use hapax_engine::store::Purge;

use crate::fixture::*;

use Occurrence::{DidNotHappen, Happened, MayHaveHappened};

fn seen(run: &RunHead, step: &str, attempt: u32, occurrence: Occurrence) -> JournalEntry {
    let effect = EffectKey::new(run.id(), run.generation, &StepId::from_stored(step));
    let evidence = Evidence { effect, class: EffectClass::Claimed, attempt, by_key: false, occurrence };
    JournalEntry {
        step: Some(StepId::from_stored(step)),
        evidence: Some(evidence),
        ..note_of(run, JournalEvent::Attempted { attempt, occurrence })
    }
}

fn tally(class: EffectClass, happened: u32, may_have_happened: u32, effects: u64) -> TallyCount {
    TallyCount { class, tally: EffectTally { happened, may_have_happened }, effects }
}

async fn tallies(t: &TestStore) -> Vec<TallyCount> {
    t.store.count_tallies(None).await.unwrap()
}

/// CONTRACT 6, 13: the strongest evidence about an attempt counts, in any order, and repeating it changes nothing.
pub(super) async fn the_strongest_evidence_of_each_attempt_counts(t: &TestStore) {
    let run = t.driven().await;
    assert_eq!(tallies(t).await, []);
    let note = async |step: &str, attempt, occurrence| {
        t.store.append_journal(vec![seen(&run, step, attempt, occurrence)]).await.unwrap();
    };
    note("wire", 1, MayHaveHappened).await;
    assert_eq!(tallies(t).await, [], "it may have happened, but not twice");
    note("wire", 2, MayHaveHappened).await;
    note("wire", 2, MayHaveHappened).await;
    assert_eq!(tallies(t).await, [tally(EffectClass::Claimed, 0, 2, 1)]);
    note("wire", 1, DidNotHappen).await;
    assert_eq!(tallies(t).await, [], "it was denied");
    note("wire", 1, Happened).await;
    note("wire", 1, DidNotHappen).await;
    note("wire", 1, MayHaveHappened).await;
    assert_eq!(
        tallies(t).await,
        [tally(EffectClass::Claimed, 1, 1, 1)],
        "a late result outweighs the denial"
    );
    note("wire", 2, Happened).await;
    for step in ["fax", "mail"] {
        note(step, 1, Happened).await;
        note(step, 7, MayHaveHappened).await;
    }
    let expected = [tally(EffectClass::Claimed, 1, 1, 2), tally(EffectClass::Claimed, 2, 0, 1)];
    assert_eq!(tallies(t).await, expected);
}

/// Evidence that the effect was found by its key after `attempt` attempts.
fn found(run: &RunHead, step: &str, attempt: u32) -> JournalEntry {
    let mut note = seen(run, step, attempt, Happened);
    note.evidence.as_mut().expect("it is evidence").by_key = true;
    note
}

/// CONTRACT 6: any earlier attempt can explain an effect that a probe or a person finds by its key. It counts as an
/// extra effect only if no attempt can have made it.
pub(super) async fn an_effect_that_is_found_by_its_key_is_one_of_its_attempts(t: &TestStore) {
    let run = t.driven().await;
    type Case<'a> = (&'a [Occurrence], &'a [u32], (u32, u32));
    let cases: [Case<'_>; 8] = [
        (&[MayHaveHappened, MayHaveHappened], &[2], (1, 1)),
        (&[Happened, MayHaveHappened], &[2], (1, 1)),
        (&[MayHaveHappened, Happened], &[1], (2, 0)),
        (&[MayHaveHappened, MayHaveHappened, Happened], &[2], (2, 1)),
        (&[MayHaveHappened, MayHaveHappened, Happened], &[2, 3], (2, 1)),
        (&[Happened, MayHaveHappened, MayHaveHappened], &[3, 2], (1, 2)),
        (&[DidNotHappen, MayHaveHappened, MayHaveHappened], &[3, 3], (1, 1)),
        (&[DidNotHappen, MayHaveHappened], &[1], (1, 1)),
    ];
    let mut expected = Vec::new();
    for (n, (attempts, found_after, (happened, may_have_happened))) in cases.into_iter().enumerate() {
        let step = format!("wire{n}");
        let mut notes: Vec<JournalEntry> =
            found_after.iter().map(|attempt| found(&run, &step, *attempt)).collect();
        notes.extend((1..).zip(attempts).map(|(attempt, known)| seen(&run, &step, attempt, *known)));
        t.store.append_journal(notes).await.unwrap();
        let count = tally(EffectClass::Claimed, happened, may_have_happened, 1);
        match expected.iter_mut().find(|other: &&mut TallyCount| other.tally == count.tally) {
            Some(other) => other.effects += 1,
            None => expected.push(count),
        }
        expected.sort();
        assert_eq!(tallies(t).await, expected, "{attempts:?}, found after {found_after:?}");
    }
    t.store.append_journal(vec![seen(&run, "fax", 1, DidNotHappen), found(&run, "fax", 1)]).await.unwrap();
    assert_eq!(tallies(t).await, expected, "it happened once");
}

/// The counts of one workspace exclude the effects of others.
pub(super) async fn effects_of_one_workspace_are_counted_apart(t: &TestStore) {
    let here = t.driven().await;
    let there = t.order().workspace("abroad").granted_to(ANN).start().await;
    for run in [&here, &there] {
        let notes = vec![seen(run, "wire", 1, Happened), seen(run, "wire", 2, Happened)];
        t.store.append_journal(notes).await.unwrap();
    }
    // The same key in two workspaces is two separate effects.
    let abroad = WorkspaceId::new("abroad").unwrap();
    let same = JournalEntry { workspace: abroad.clone(), ..seen(&here, "wire", 1, Happened) };
    t.store.append_journal(vec![same]).await.unwrap();
    assert_eq!(tallies(t).await, [tally(EffectClass::Claimed, 2, 0, 2)]);
    let of = async |workspace: &WorkspaceId| t.store.count_tallies(Some(workspace)).await.unwrap();
    assert_eq!(of(&abroad).await, [tally(EffectClass::Claimed, 2, 0, 1)]);
    assert_eq!(of(&WorkspaceId::default()).await, [tally(EffectClass::Claimed, 2, 0, 1)]);
    assert_eq!(of(&WorkspaceId::new("nowhere").unwrap()).await, []);
}

/// A successful effect adds nothing to the journal. Every other attempt is recorded in the write that reports it.
pub(super) async fn a_step_tried_again_leaves_evidence_and_a_clean_one_none(t: &TestStore) {
    let run = t.driven().await;
    let run = t.write(&run).await.does("ship").done().await;
    assert_eq!(t.notes().await, []);
    let due_at = t.now();
    let lost = StepState::Pending { due_at, failure: Failure::unknown("reset") };
    let write = t.write(&run).await;
    let run = write.step("charge", StepKind::Effect, StepTransition::ScheduleRetry, lost, None).done().await;
    assert_eq!(tallies(t).await, []);
    let write = t.write(&run).await;
    let run =
        write.step("charge", StepKind::Effect, StepTransition::Begin, StepState::Running, None).done().await;
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 0, 2, 1)], "it is under way");
    let done = StepState::Completed { at: t.now(), output: json("1") };
    let write = t.write(&run).await;
    write.step("charge", StepKind::Effect, StepTransition::Complete, done, None).done().await;
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 1, 1, 1)]);
}

/// CONTRACT 6: a retry of a run keeps all evidence about attempts, and continues their numbers.
pub(super) async fn a_retry_keeps_what_is_known_of_the_records_it_drops(t: &TestStore) {
    let run = t.driven().await;
    t.write(&run).await.does("charge").does("ship").fails("no room").done().await;
    assert_eq!(t.log(&run).await.attempts_before, []);
    let failed = t.head(&run).await;
    let from = Some(StepId::from_stored("charge"));
    t.steered(&failed, RunCommand::retry(from)).await;
    let before = |step: &str| (StepId::from_stored(step), 1);
    assert_eq!(t.log(&run).await.attempts_before, [before("charge"), before("ship")]);
    assert_eq!(t.log(&run).await.steps, []);
    assert_eq!(tallies(t).await, [], "they happened once so far");
    let held = t.claim_one(ANN).await;
    let done = StepState::Completed { at: t.now(), output: json("1") };
    let write = t.write(&held).await;
    write.step("charge", StepKind::Effect, StepTransition::Complete, done, None).done().await;
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 2, 0, 1)]);
}

/// A retry may drop the record of an effect that only its key proves. The outcome of the last attempt stays unknown.
pub(super) async fn a_retry_does_not_learn_from_a_record_that_only_the_key_proves(t: &TestStore) {
    let run = t.driven().await;
    let claimed = StepKind::Claimed;
    let done = || StepState::Completed { at: t.now(), output: json("1") };
    let write = t.write(&run).await.step("wire", claimed, StepTransition::Complete, done(), None);
    write.fails("no room").done().await;
    for attempt in 2..4 {
        let repeat = RepeatPermission {
            effects: vec![StepId::from_stored("wire")],
            by: Actor::new(MEG, Role::Manager),
            seconded_by: None,
            reason: "the paper was empty".into(),
        };
        let from = Some(StepId::from_stored("wire"));
        t.steered(&t.head(&run).await, RunCommand::Retry { from, repeat: Some(Box::new(repeat)) }).await;
        let held = t.claim_one(ANN).await;
        let write =
            t.write(&held).await.step("wire", claimed, StepTransition::Begin, StepState::Running, None);
        let held = write.done().await;
        let held = t.write(&held).await.loses("wire", Failure::unknown("reset")).done().await;
        let write = t.write(&held).await.settles_doubt("wire", StepTransition::Happened, done());
        write.fails("no room").done().await;
        let expected = tally(EffectClass::Claimed, 1, attempt - 1, 1);
        assert_eq!(tallies(t).await, [expected], "the first has happened, and the others may have");
    }
}

/// A deleted run takes its ledger and its counts with it.
pub(super) async fn evidence_goes_with_its_run(t: &TestStore) {
    let run = t.driven().await;
    let notes = vec![seen(&run, "wire", 1, Happened), seen(&run, "wire", 2, Happened)];
    t.store.append_journal(notes).await.unwrap();
    t.write(&run).await.completes("1").done().await;
    assert_eq!(tallies(t).await.len(), 1);
    t.pass(SECOND);
    let purge = Purge { runs_closed_before: Some(t.now()), after: None, limit: 100 };
    t.store.purge(purge).await.unwrap();
    assert_eq!(tallies(t).await, []);
}
