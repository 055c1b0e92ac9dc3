//! Journal evidence about each attempt at an operation's action, and the counts of actions that happened twice or may
//! have.

use hapax_engine::model::{
    EffectClass, EffectKey, EffectTally, EntityJournalEntry, EntityStorage, Failure, FinishBy,
    FinishOperation, FinishOperationOutcome, JournalEvent, Occurrence, OperationEnd, TallyCount, WorkspaceId,
};
use hapax_engine::store::{ListEntityJournal, ListEvidence};

use crate::fixture::*;
use crate::must;

use Occurrence::{DidNotHappen, Happened, MayHaveHappened};

fn tally(class: EffectClass, happened: u32, may_have_happened: u32) -> TallyCount {
    TallyCount { class, tally: EffectTally { happened, may_have_happened }, effects: 1 }
}

async fn tallies(t: &TestStore) -> Vec<TallyCount> {
    t.store.count_tallies(None).await.unwrap()
}

async fn list(t: &TestStore, effect: &EffectKey, after_try: u32, limit: usize) -> Vec<(u32, Occurrence)> {
    let (workspace, effect) = (WorkspaceId::default(), effect.clone());
    let request = ListEvidence { workspace, effect: effect.clone(), after_try, limit };
    let found = t.entities().list_evidence(request).await.unwrap();
    let proofs = found.into_iter().map(|placed| placed.note.evidence.expect("it is evidence"));
    proofs
        .inspect(|proof| assert_eq!(proof.effect, effect))
        .map(|proof| (proof.attempt, proof.occurrence))
        .collect()
}

async fn evidence(t: &TestStore, held: &BegunOperation<'_>) -> Vec<(u32, Occurrence)> {
    list(t, &held.operation.effect_key(), 0, 100).await
}

async fn ended(held: &BegunOperation<'_>, end: OperationEnd) {
    must!(held.finish(end).await, FinishOperationOutcome::Finished { .. });
}

fn lost() -> OperationEnd {
    OperationEnd::Failed(Failure::unknown("no answer"))
}

/// CONTRACT 6: an action with a known outcome at its first attempt adds nothing to the journal.
pub(super) async fn an_action_with_a_known_end_leaves_no_evidence(t: &TestStore) {
    for home in t.homes().await {
        let ends = [
            done("1"),
            OperationEnd::Rejected(Failure::permanent("no")),
            OperationEnd::Failed(Failure::retryable("busy")),
        ];
        for (n, end) in ends.into_iter().enumerate() {
            let held = t.closing(&home, &format!("i{n}")).await;
            ended(&held, end).await;
            assert_eq!(evidence(t, &held).await, []);
        }
    }
    assert!(t.notes().await.iter().all(|note| note.evidence.is_none()));
    assert_eq!(tallies(t).await, []);
}

/// CONTRACT 8: a reverted action may have happened, so an operation that continues under its key may repeat the effect.
pub(super) async fn a_reverted_action_may_have_happened(t: &TestStore) {
    let first = t.closing(&EntityStorage::BuiltIn, "i1").await;
    first.reverted().await;
    assert_eq!(evidence(t, &first).await, [(1, MayHaveHappened)]);
    assert_eq!(tallies(t).await, [], "it may have happened, but not twice");
    let second = t.close(&EntityStorage::BuiltIn, "i1").seen(3).begins().await;
    assert_eq!(evidence(t, &second).await, [(1, MayHaveHappened), (2, MayHaveHappened)]);
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 0, 2)]);
    ended(&second, done("1")).await;
    assert_eq!(evidence(t, &first).await, [(1, MayHaveHappened), (2, MayHaveHappened), (2, Happened)]);
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 1, 1)]);
}

/// Every attempt under a key counts, and a repeated write counts once.
pub(super) async fn each_try_of_an_action_leaves_evidence(t: &TestStore) {
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let again = FinishOperation { tries: Some(2), ..held.own_end(OperationEnd::TryAgain) };
    for _ in 0..2 {
        must!(held.send(again.clone()).await, FinishOperationOutcome::Finished { .. });
        assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 0, 2)]);
    }
    let request = FinishOperation { tries: Some(2), ..held.own_end(done("1")) };
    must!(held.send(request.clone()).await, FinishOperationOutcome::Finished { .. });
    let known = evidence(t, &held).await;
    must!(held.send(request).await, FinishOperationOutcome::Again(_));
    assert_eq!(evidence(t, &held).await, known);
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 1, 1)]);
}

/// A write that changes nothing adds no evidence.
pub(super) async fn a_refused_end_leaves_no_evidence(t: &TestStore) {
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    must!(held.send(held.end(FinishBy::Holder(BOB), lost())).await, FinishOperationOutcome::Lost(Some(_)));
    must!(
        held.send(held.end(FinishBy::People, OperationEnd::DidNotHappen)).await,
        FinishOperationOutcome::Lost(Some(_))
    );
    assert_eq!(evidence(t, &held).await, []);
}

/// CONTRACT 6: a ruling by a person or probe is evidence about every attempt under the key.
pub(super) async fn a_ruling_is_evidence_about_every_try_under_the_key(t: &TestStore) {
    for (n, by) in [FinishBy::People, FinishBy::Probe].into_iter().enumerate() {
        let id = format!("i{n}");
        t.invoice(&EntityStorage::BuiltIn, &id, "approved").await;
        let held = t.close(&EntityStorage::BuiltIn, &id).holding().begins().await;
        let doubt = FinishOperation { tries: Some(2), ..held.own_end(OperationEnd::InDoubt) };
        must!(held.send(doubt).await, FinishOperationOutcome::Finished { .. });
        assert_eq!(evidence(t, &held).await, [(2, MayHaveHappened)]);
        must!(
            held.send(held.end(by, OperationEnd::DidNotHappen)).await,
            FinishOperationOutcome::Finished { .. }
        );
        let expected = [(1, DidNotHappen), (2, MayHaveHappened), (2, DidNotHappen)];
        assert_eq!(evidence(t, &held).await, expected);
    }
    t.invoice(&EntityStorage::BuiltIn, "i9", "approved").await;
    let held = t.close(&EntityStorage::BuiltIn, "i9").holding().begins().await;
    ended(&held, OperationEnd::InDoubt).await;
    must!(held.send(held.end(FinishBy::People, done("1"))).await, FinishOperationOutcome::Finished { .. });
    assert_eq!(
        evidence(t, &held).await,
        [(1, Happened), (1, MayHaveHappened)],
        "found by its key, after one try"
    );
    assert_eq!(tallies(t).await, []);
}

/// CONTRACT 6: a late result after a ruling changes only the counts.
pub(super) async fn a_late_result_changes_the_counts_alone(t: &TestStore) {
    t.invoice(&EntityStorage::BuiltIn, "i1", "approved").await;
    let first = t.close(&EntityStorage::BuiltIn, "i1").holding().begins().await;
    ended(&first, OperationEnd::InDoubt).await;
    must!(
        first.send(first.end(FinishBy::People, OperationEnd::DidNotHappen)).await,
        FinishOperationOutcome::Finished { .. }
    );
    let second = t.close(&EntityStorage::BuiltIn, "i1").holding().seen(3).begins().await;
    ended(&second, done("1")).await;
    assert_eq!(tallies(t).await, []);
    let what = JournalEvent::Refused { attempt: 1, occurrence: Some(Happened) };
    let proof = first.operation.evidence(1, Happened);
    let late = EntityJournalEntry { by: None, what: what.clone(), evidence: proof, ..first.remark("late") };
    t.entities().append_entity_journal(vec![late]).await.unwrap();
    assert_eq!(tallies(t).await, [tally(EffectClass::Claimed, 2, 0)]);
    assert_eq!(t.standing(&EntityStorage::BuiltIn, "i1").await, ("closed".into(), 5));
    // People see the note, but not the entries that only count.
    let request = ListEntityJournal {
        workspace: WorkspaceId::default(),
        entity: entity_in(&EntityStorage::BuiltIn, "i1"),
        operation: None,
        after: 0,
        limit: 100,
    };
    let notes = t.entities().list_entity_journal(request).await.unwrap();
    assert_eq!(notes.into_iter().map(|placed| placed.note.what).collect::<Vec<_>>(), [what]);
}

/// A late result proves one attempt, while a probe or person finds the effect by its key. Both may refer to the same
/// attempt, in whichever order they arrive.
pub(super) async fn a_late_result_and_a_found_key_may_be_one_effect(t: &TestStore) {
    let mut n = 0;
    for by in [FinishBy::People, FinishBy::Probe] {
        for late_comes_first in [true, false] {
            n += 1;
            let id = format!("i{n}");
            t.invoice(&EntityStorage::BuiltIn, &id, "approved").await;
            let first = t.close(&EntityStorage::BuiltIn, &id).holding().begins().await;
            ended(&first, OperationEnd::InDoubt).await;
            let denied = first.end(FinishBy::People, OperationEnd::DidNotHappen);
            must!(first.send(denied).await, FinishOperationOutcome::Finished { .. });
            let second = t.close(&EntityStorage::BuiltIn, &id).holding().seen(3).begins().await;
            ended(&second, OperationEnd::InDoubt).await;
            let late = || EntityJournalEntry {
                by: None,
                what: JournalEvent::Refused { attempt: 1, occurrence: Some(Happened) },
                evidence: first.operation.evidence(1, Happened),
                ..first.remark("late")
            };
            if late_comes_first {
                t.entities().append_entity_journal(vec![late()]).await.unwrap();
            }
            must!(second.send(second.end(by, done("1"))).await, FinishOperationOutcome::Finished { .. });
            if !late_comes_first {
                t.entities().append_entity_journal(vec![late()]).await.unwrap();
            }
            let expected = TallyCount { effects: n, ..tally(EffectClass::Claimed, 1, 1) };
            assert_eq!(tallies(t).await, [expected], "{by:?}, late first: {late_comes_first}");
        }
    }
}

/// Each attempt under an effect key has its own number. A reverted operation is retried under its own key, after other
/// operations have continued its effect and others have had separate effects.
pub(super) async fn no_two_tries_under_a_key_have_the_same_number(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = |seen| t.close(&home, "i1").to("approved").holding().seen(seen);
        let first = close(1).key("k").begins().await;
        ended(&first, OperationEnd::InDoubt).await;
        let denied = first.end(FinishBy::People, OperationEnd::DidNotHappen);
        must!(first.send(denied).await, FinishOperationOutcome::Finished { .. });
        let second = close(3).begins().await;
        ended(&second, done("1")).await;
        ended(&close(5).begins().await, OperationEnd::Rejected(Failure::permanent("no"))).await;
        let again = close(7).key("k").begins().await;
        assert_eq!((again.id(), again.operation.last_try()), (first.id(), 3));
        ended(&again, done("1")).await;
        let last: Vec<(u32, Occurrence)> =
            evidence(t, &first).await.into_iter().filter(|(_, known)| *known == Happened).collect();
        assert_eq!(last, [(2, Happened), (3, Happened)]);
    }
    let homes = t.homes().await.len() as u64;
    assert_eq!(tallies(t).await, [TallyCount { effects: homes, ..tally(EffectClass::Claimed, 2, 0) }]);
}

/// An unclaimed step may have several concurrent operations under one effect key. Each has its own attempt numbers.
pub(super) async fn tries_side_by_side_have_numbers_of_their_own(t: &TestStore) {
    t.invoice(&EntityStorage::BuiltIn, "i1", "approved").await;
    let close = || t.close(&EntityStorage::BuiltIn, "i1").unclaimed();
    let first = close().key("k").begins().await;
    first.reverted().await;
    let other = close().begins().await;
    assert_eq!(other.operation.effect_key(), first.operation.effect_key());
    let again = close().key("k").begins().await;
    assert_eq!((other.operation.last_try(), again.operation.last_try()), (2, 3));
    let more = FinishOperation { tries: Some(2), ..other.own_end(OperationEnd::TryAgain) };
    for _ in 0..2 {
        let tried = must!(other.send(more.clone()).await, FinishOperationOutcome::Finished { operation, .. } => *operation);
        assert_eq!(tried.last_try(), 4, "however often it is sent");
        assert_eq!(other.now().await, tried);
    }
    let more = FinishOperation { tries: Some(3), ..other.own_end(OperationEnd::TryAgain) };
    must!(other.send(more).await, FinishOperationOutcome::Finished { operation, .. } if operation.last_try() == 5);
    ended(&again, lost()).await;
    must!(
        other.send(FinishOperation { tries: Some(3), ..other.own_end(done("1")) }).await,
        FinishOperationOutcome::Finished { .. }
    );
    assert_eq!(tallies(t).await, [tally(EffectClass::Idempotent, 1, 4)]);
}

/// Evidence about one effect is listed in the order of attempts, in pages, separately from other effects and
/// workspaces.
pub(super) async fn evidence_is_listed_by_effect_in_pages(t: &TestStore) {
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let other = t.closing(&EntityStorage::BuiltIn, "i2").await;
    ended(&other, lost()).await;
    for tries in 2..=4 {
        let again = FinishOperation { tries: Some(tries), ..held.own_end(OperationEnd::TryAgain) };
        must!(held.send(again).await, FinishOperationOutcome::Finished { .. });
    }
    let effect = held.operation.effect_key();
    let open = |tries: &[u32]| tries.iter().map(|n| (*n, MayHaveHappened)).collect::<Vec<_>>();
    assert_eq!(list(t, &effect, 0, 100).await, open(&[1, 2, 2, 3, 3, 4]));
    assert_eq!(list(t, &effect, 0, 2).await, open(&[1, 2]));
    assert_eq!(list(t, &effect, 2, 100).await, open(&[3, 3, 4]));
    assert_eq!(list(t, &effect, 4, 100).await, []);
    let workspace = WorkspaceId::new("abroad").unwrap();
    let abroad = ListEvidence { workspace, effect, after_try: 0, limit: 100 };
    assert_eq!(t.entities().list_evidence(abroad).await.unwrap(), []);
}

/// A deleted operation leaves its evidence, so the counts stay complete.
pub(super) async fn evidence_outlives_its_operation(t: &TestStore) {
    let first = t.closing(&EntityStorage::BuiltIn, "i1").await;
    ended(&first, lost()).await;
    let second = t.close(&EntityStorage::BuiltIn, "i1").to("approved").seen(3).begins().await;
    ended(&second, done("1")).await;
    t.pass(SECOND);
    let newest = t.close(&EntityStorage::BuiltIn, "i1").seen(5).begins().await;
    ended(&newest, done("1")).await;
    let before = tallies(t).await;
    assert_eq!(before, [tally(EffectClass::Idempotent, 1, 1)]);
    let purge = hapax_engine::store::PurgeOperations { ended_before: t.now(), after: None, limit: 100 };
    assert_eq!(t.entities().purge_operations(purge).await.unwrap().operations, 2);
    assert_eq!(tallies(t).await, before);
    assert_eq!(evidence(t, &first).await.len(), 3);
}
