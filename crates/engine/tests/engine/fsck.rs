//! Each invariant that data can break: the check detects a store that lies about it.

#[path = "fsck/faked_entities.rs"]
mod faked_entities;
#[path = "fsck/faked_promises.rs"]
mod faked_promises;
#[path = "fsck/faked_store.rs"]
mod faked_store;

use std::collections::BTreeSet;
use std::sync::Arc;

use faked_store::{FakedAnswer, FakedStore};
use hapax_engine::clock::ManualClock;
use hapax_engine::fsck::fsck;
use hapax_engine::limits::{INBOUND_EVENT_OVERDUE_AFTER, MAX_STALLS};
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{
    EffectKey, EntityStorage, EventKind, Fence, Fingerprint, Generation, IdempotencyKey, InboundEventId,
    InboundEventStatus, KeyRecord, KeyTarget, Lease, OutboxMessage, Payload, PendingRequest, Promise,
    PromiseId, PromiseKey, PromiseRef, PromiseState, RunHead, RunId, RunState, Settlement, StepKind,
    StepState, Timestamp, Version, WorkspaceId,
};
use hapax_engine::model::{RunFacts, RunningState};
use hapax_engine::store::{
    FinishInboundEvent, NewInboundEvent, ReceiveOutcome, SettleOutcome, SettlePromise, StoredEarlySettlement,
    StoredKey,
};
use hapax_store_conformance::fixture::*;
use hapax_store_conformance::must;

fn stage() -> TestStore {
    let clock = Arc::new(ManualClock::default());
    TestStore::new(Arc::new(MemoryStore::new(clock.clone())), clock)
}

/// Invariants that the check reports when the store tells this lie about the run.
async fn found(stage: &TestStore, about: &RunHead, lie: FakedAnswer) -> BTreeSet<u8> {
    let honest = stage.fsck().await;
    assert!(honest.is_clean(), "{honest}");
    assert!(honest.runs > 0 && honest.events > 0, "{honest}");
    let liar = FakedStore { store: stage.store.clone(), about: about.id(), lie };
    let report = fsck(&liar).await.unwrap();
    assert_eq!(report.moving, 0, "the lie must hold in every read");
    report.violations.into_iter().map(|violation| violation.invariant).collect()
}

macro_rules! finds {
    ($stage:expr, $run:expr, $lie:expr, $($invariant:literal),*) => {
        assert_eq!(found($stage, $run, $lie).await, BTreeSet::from([$($invariant),*]))
    };
}

/// Run with a key that did two steps, lost a worker, and waits for a promise.
async fn waiting(stage: &TestStore) -> RunHead {
    let run = stage.order().key("k").granted_to(ANN).start().await;
    stage.write(&run).await.does("charge").begins("ship").done().await;
    stage.pass(LEASE);
    let run = stage.claim_one(BOB).await;
    stage.write(&run).await.does("ship").awaits_promise("payment", None).parks().done().await
}

async fn closed(stage: &TestStore) -> RunHead {
    let run = stage.order().key("k").keep_key_for(HOUR).granted_to(ANN).start().await;
    stage.write(&run).await.does("charge").completes("1").done().await
}

fn facts(head: &mut RunHead) -> &mut RunFacts {
    Arc::make_mut(&mut head.facts)
}

#[tokio::test]
async fn an_honest_store_is_clean_and_was_looked_at() {
    let stage = stage();
    waiting(&stage).await;
    let report = stage.fsck().await;
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.runs, report.steps, report.events, report.keys), (1, 3, 3, 1));
}

#[tokio::test]
async fn invariant_6_a_row_without_its_history() {
    let stage = stage();
    let run = waiting(&stage).await;
    finds!(
        &stage,
        &run,
        FakedAnswer { head: |head| head.version = head.version.next(), ..FakedAnswer::NONE },
        6
    );
}

#[tokio::test]
async fn invariant_6_a_history_without_its_row() {
    let stage = stage();
    let run = stage.pending().await;
    let lie = FakedAnswer { head: |head| head.version = Version::default(), ..FakedAnswer::NONE };
    finds!(&stage, &run, lie, 6);
}

#[tokio::test]
async fn invariant_6_an_ending_without_its_result() {
    let stage = stage();
    let run = closed(&stage).await;
    finds!(&stage, &run, FakedAnswer { view: |view| view.result = None, ..FakedAnswer::NONE }, 6);
}

#[tokio::test]
async fn invariant_6_a_row_and_a_history_that_end_at_two_instants() {
    let stage = stage();
    let run = closed(&stage).await;
    let lie = FakedAnswer {
        events: |events| events.last_mut().unwrap().at = Timestamp::EPOCH,
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 6);
}

#[tokio::test]
async fn invariant_6_a_wait_without_its_promise() {
    let stage = stage();
    let run = waiting(&stage).await;
    finds!(&stage, &run, FakedAnswer { log: |log| log.promises.clear(), ..FakedAnswer::NONE }, 6, 28);
}

#[tokio::test]
async fn invariant_7_a_key_that_names_another_open_run() {
    let stage = stage();
    let run = waiting(&stage).await;
    let other = |keys: &mut Vec<_>| faked_store::names(keys, |run, _| *run = RunId::from_u128(1));
    finds!(&stage, &run, FakedAnswer { keys: other, ..FakedAnswer::NONE }, 7);
}

#[tokio::test]
async fn invariant_7_two_keys_that_name_one_run() {
    let stage = stage();
    let run = waiting(&stage).await;
    let lie = FakedAnswer {
        keys: |keys| {
            let mut second = keys[0].clone();
            second.0.key = hapax_engine::model::IdempotencyKey::new("l").unwrap();
            keys.push(second);
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 7);
}

#[tokio::test]
async fn invariant_7_two_open_runs_on_one_subject() {
    let stage = stage();
    let run = stage.order().subject("o-1").start().await;
    stage.order().subject("o-2").start().await;
    let lie = FakedAnswer {
        head: |head| facts(head).subject = Some(hapax_engine::model::Subject::new("o-2").unwrap()),
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 7);
}

#[tokio::test]
async fn invariant_8_a_key_that_dies_before_its_run() {
    let stage = stage();
    let run = waiting(&stage).await;
    let soon = |keys: &mut Vec<_>| faked_store::key_record(keys).expires_at = Some(Timestamp::EPOCH);
    finds!(&stage, &run, FakedAnswer { keys: soon, ..FakedAnswer::NONE }, 8);
    finds!(&stage, &run, FakedAnswer { keys: |keys| keys.clear(), ..FakedAnswer::NONE }, 8);
}

#[tokio::test]
async fn invariant_8_a_key_that_does_not_outlive_its_run_as_declared() {
    let stage = stage();
    let run = closed(&stage).await;
    let for_ever = |keys: &mut Vec<_>| faked_store::key_record(keys).expires_at = None;
    finds!(&stage, &run, FakedAnswer { keys: for_ever, ..FakedAnswer::NONE }, 8);
    finds!(&stage, &run, FakedAnswer { keys: |keys| keys.clear(), ..FakedAnswer::NONE }, 8);
}

#[tokio::test]
async fn invariant_10_a_key_that_stands_for_another_fingerprint() {
    let stage = stage();
    let run = closed(&stage).await;
    let other = |keys: &mut Vec<_>| {
        faked_store::names(keys, |_, fingerprint| *fingerprint = Fingerprint::from_bytes([0; 32]))
    };
    finds!(&stage, &run, FakedAnswer { keys: other, ..FakedAnswer::NONE }, 10);
}

#[tokio::test]
async fn invariant_14_a_key_that_names_a_run_of_another_workspace() {
    let stage = stage();
    let run = stage.order().key("k").start().await;
    stage.order().key("k").workspace("other").start().await;
    let lie = FakedAnswer {
        keys: |keys| {
            let abroad = WorkspaceId::new("other").unwrap();
            keys.iter_mut().for_each(|(place, _)| place.workspace = abroad.clone());
        },
        ..FakedAnswer::NONE
    };
    assert!(found(&stage, &run, lie).await.contains(&14));
}

#[tokio::test]
async fn invariant_17_a_grant_that_does_not_raise_the_fence() {
    let stage = stage();
    let run = waiting(&stage).await;
    let low = |events: &mut Vec<hapax_engine::model::RunEvent>| {
        events.iter_mut().for_each(|event| event.fence = Fence::new(1));
    };
    assert!(found(&stage, &run, FakedAnswer { events: low, ..FakedAnswer::NONE }).await.contains(&17));
}

#[tokio::test]
async fn invariant_17_a_fence_that_rises_without_a_grant() {
    let stage = stage();
    let run = waiting(&stage).await;
    finds!(
        &stage,
        &run,
        FakedAnswer { head: |head| head.fence = head.fence.next(), ..FakedAnswer::NONE },
        17
    );
}

#[tokio::test]
async fn invariant_18_a_write_under_an_older_fence() {
    let stage = stage();
    let run = waiting(&stage).await;
    let late_event = FakedAnswer { events: |events| events[2].fence = Fence::new(1), ..FakedAnswer::NONE };
    finds!(&stage, &run, late_event, 18);
    let late_step = FakedAnswer { log: |log| log.steps[1].fence = Fence::new(1), ..FakedAnswer::NONE };
    finds!(&stage, &run, late_step, 18);
}

#[tokio::test]
async fn invariant_18_a_write_without_a_lease() {
    let stage = stage();
    let run = stage.driven().await;
    let run = stage.write(&run).await.does("charge").releases().done().await;
    let lie = FakedAnswer {
        events: |events| (events[0].fence, events[0].note) = (Fence::default(), None),
        ..FakedAnswer::NONE
    };
    assert!(found(&stage, &run, lie).await.contains(&18));
}

#[tokio::test]
async fn invariant_19_a_second_lease() {
    let stage = stage();
    let run = stage.driven().await;
    stage.pass(LEASE);
    stage.claim_one(BOB).await;
    let lie = FakedAnswer { events: |events| events[1].kind = EventKind::Claimed, ..FakedAnswer::NONE };
    finds!(&stage, &run, lie, 19);
    let thief = FakedAnswer {
        head: |head| {
            head.state =
                RunState::Running(RunningState::Leased(Lease { owner: ANN, until: Timestamp::EPOCH }))
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, thief, 19);
}

#[tokio::test]
async fn invariant_25_a_change_that_the_graph_does_not_have() {
    let stage = stage();
    let run = stage.pending().await;
    stage.steered(&run, hapax_engine::model::RunCommand::Pause).await;
    stage.steered(&run, hapax_engine::model::RunCommand::Resume).await;
    let lie = FakedAnswer { events: |events| events[1].kind = EventKind::Released, ..FakedAnswer::NONE };
    assert!(found(&stage, &run, lie).await.contains(&25));
}

#[tokio::test]
async fn invariant_25_a_state_that_the_history_does_not_lead_to() {
    let stage = stage();
    let run = stage.pending().await;
    finds!(&stage, &run, FakedAnswer { head: |head| head.state = RunState::Paused, ..FakedAnswer::NONE }, 25);
    finds!(
        &stage,
        &run,
        FakedAnswer { head: |head| head.asked = PendingRequest::Cancel, ..FakedAnswer::NONE },
        25
    );
}

#[tokio::test]
async fn invariant_26_a_version_that_is_missing() {
    let stage = stage();
    let run = waiting(&stage).await;
    let lost_step = FakedAnswer { log: |log| drop(log.steps.remove(0)), ..FakedAnswer::NONE };
    finds!(&stage, &run, lost_step, 26);
    let lost_event = FakedAnswer { events: |events| drop(events.remove(0)), ..FakedAnswer::NONE };
    assert!(found(&stage, &run, lost_event).await.contains(&26));
}

#[tokio::test]
async fn invariant_26_a_version_that_two_things_have() {
    let stage = stage();
    let run = waiting(&stage).await;
    let lie = FakedAnswer {
        log: |log| {
            let first = log.steps[0].changed_version;
            log.steps[1].started_version = first;
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 26);
}

/// Versions of earlier attempts may be missing, but no more than the step can have used.
#[tokio::test]
async fn invariant_26_attempts_leave_holes_but_no_larger_ones() {
    let stage = stage();
    let run = stage.driven().await;
    let run = stage.write(&run).await.begins("charge").done().await;
    let run = stage.write(&run).await.retries_at("charge", stage.now()).done().await;
    let run = stage.write(&run).await.does("charge").done().await;
    assert!(stage.fsck().await.is_clean());
    let lie = FakedAnswer { log: |log| log.steps[0].attempts = 1, ..FakedAnswer::NONE };
    finds!(&stage, &run, lie, 26);
}

#[tokio::test]
async fn invariant_26_a_generation_that_is_not_over() {
    let stage = stage();
    let run = stage.driven().await;
    let run = stage.write(&run).await.does("charge").continues_with("2").done().await;
    finds!(
        &stage,
        &run,
        FakedAnswer { head: |head| head.generation = Generation::default(), ..FakedAnswer::NONE },
        26
    );
}

#[tokio::test]
async fn invariant_27_an_ending_too_few_or_too_many() {
    let stage = stage();
    let run = closed(&stage).await;
    let lie = FakedAnswer { events: |events| drop(events.pop()), ..FakedAnswer::NONE };
    assert!(found(&stage, &run, lie).await.contains(&27));
    let lie = FakedAnswer {
        events: |events| {
            let mut second = events[1].clone();
            second.version = second.version.next();
            events.push(second);
        },
        ..FakedAnswer::NONE
    };
    assert!(found(&stage, &run, lie).await.is_superset(&BTreeSet::from([25, 27])));
}

#[tokio::test]
async fn invariant_27_a_closed_run_with_a_step_under_way() {
    let stage = stage();
    let run = closed(&stage).await;
    finds!(
        &stage,
        &run,
        FakedAnswer { log: |log| log.steps[0].state = StepState::Running, ..FakedAnswer::NONE },
        27
    );
}

#[tokio::test]
async fn invariant_28_a_run_that_nothing_will_wake() {
    let stage = stage();
    let run = stage.driven().await;
    let until = stage.now().plus(HOUR);
    let run = stage.write(&run).await.sleeps("nap", until).parks_until(Some(until)).done().await;
    finds!(
        &stage,
        &run,
        FakedAnswer { head: |head| head.state = RunState::Waiting { wake_at: None }, ..FakedAnswer::NONE },
        28
    );
}

#[tokio::test]
async fn invariant_31_a_step_with_two_outcomes() {
    let stage = stage();
    let run = stage.driven().await;
    let run = stage.write(&run).await.does("charge").does("ship").done().await;
    let lie = FakedAnswer { log: |log| log.steps[1].id = log.steps[0].id.clone(), ..FakedAnswer::NONE };
    finds!(&stage, &run, lie, 31);
}

#[tokio::test]
async fn invariant_35_a_run_that_loses_workers_for_ever() {
    let stage = stage();
    let run = stage.driven().await;
    finds!(&stage, &run, FakedAnswer { head: |head| head.stalls = MAX_STALLS + 1, ..FakedAnswer::NONE }, 35);
}

#[tokio::test]
async fn invariant_39_a_promise_of_another_run() {
    let stage = stage();
    let run = waiting(&stage).await;
    finds!(
        &stage,
        &run,
        FakedAnswer { log: |log| log.promises[0].run = RunId::from_u128(1), ..FakedAnswer::NONE },
        39
    );
}

#[tokio::test]
async fn invariant_41_a_settled_promise_with_a_sleeping_waiter() {
    let stage = stage();
    let run = waiting(&stage).await;
    let lie = FakedAnswer {
        log: |log| {
            let settlement = Settlement::Resolved(json("1"));
            log.promises[0].state = PromiseState::Settled { at: Timestamp::EPOCH, settlement };
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 41);
}

#[tokio::test]
async fn invariant_44_a_signal_out_of_place() {
    let stage = stage();
    let run = stage.pending().await;
    let _ = stage.signal(&run, "go").await;
    finds!(&stage, &run, FakedAnswer { log: |log| log.signals[0].seq = 2, ..FakedAnswer::NONE }, 44);
}

#[tokio::test]
async fn invariant_46_a_child_that_nobody_told() {
    let stage = stage();
    let parent = stage.driven().await;
    let order = stage.child_of(&parent, "ship").abandoned();
    stage.write(&parent).await.awaits_child("ship", &order).gets("ship").completes("1").done().await;
    let child = stage.claim_one(BOB).await;
    let lie = FakedAnswer {
        head: |head| {
            if let Some(parent) = &mut facts(head).parent {
                parent.on_close = hapax_engine::model::ClosePolicy::Cancel;
            }
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &child, lie, 46);
}

/// Run with two after-effects in its second generation and one in its first.
async fn left_three(stage: &TestStore) -> RunHead {
    let run = stage.driven().await;
    let run = stage.write(&run).await.leaves("notify", "mail").continues_with("2").done().await;
    stage.write(&run).await.leaves("notify", "mail").does("charge").leaves("print", "hook").done().await
}

#[tokio::test]
async fn after_effects_are_looked_at() {
    let stage = stage();
    let run = left_three(&stage).await;
    stage.write(&run).await.completes("1").done().await;
    let report = stage.fsck().await;
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.runs, report.posts), (1, 3));
}

#[tokio::test]
async fn invariant_50_a_step_that_left_nothing() {
    let stage = stage();
    let run = left_three(&stage).await;
    finds!(&stage, &run, FakedAnswer { posts: |posts| drop(posts.remove(1)), ..FakedAnswer::NONE }, 50);
    finds!(&stage, &run, FakedAnswer { posts: |posts| posts.clear(), ..FakedAnswer::NONE }, 50);
    let older = FakedAnswer {
        posts: |posts| posts.retain(|post| post.id.as_str().contains(".1:")),
        ..FakedAnswer::NONE
    };
    assert!(found(&stage, &run, older).await.is_empty(), "the records of the first generation are gone");
}

#[tokio::test]
async fn invariant_50_an_after_effect_that_no_step_left() {
    let stage = stage();
    let run = left_three(&stage).await;
    let lost_step = |log: &mut hapax_engine::store::RunLog| {
        log.steps.retain(|step| step.id.as_str() != "print");
    };
    assert!(found(&stage, &run, FakedAnswer { log: lost_step, ..FakedAnswer::NONE }).await.contains(&50));
    let other_kind = FakedAnswer { log: |log| log.steps[0].kind = StepKind::Effect, ..FakedAnswer::NONE };
    finds!(&stage, &run, other_kind, 50);
    let invented = FakedAnswer {
        posts: |posts| {
            let id = format!("{}-b", posts[1].id);
            posts.push(OutboxMessage { id: EffectKey::from_stored(&id), ..posts[1].clone() });
        },
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, invented, 50);
}

#[tokio::test]
async fn invariant_50_an_after_effect_under_the_id_of_another_run() {
    let stage = stage();
    let run = left_three(&stage).await;
    let lie = FakedAnswer { posts: |posts| posts[0].run = RunId::from_u128(1), ..FakedAnswer::NONE };
    finds!(&stage, &run, lie, 50);
}

/// A retry deletes records. After-effects of their steps stay, which is correct.
#[tokio::test]
async fn invariant_50_a_retry_leaves_what_its_steps_left() {
    let stage = stage();
    let run = left_three(&stage).await;
    let run = stage.write(&run).await.fails("no").done().await;
    let from = Some(hapax_engine::model::StepId::from_stored("charge"));
    stage.steered(&run, hapax_engine::model::RunCommand::retry(from)).await;
    assert!(stage.fsck().await.is_clean());
    finds!(&stage, &run, FakedAnswer { posts: |posts| drop(posts.remove(0)), ..FakedAnswer::NONE }, 50);
}

/// fsck also reads after-effects beyond the number that the records suggest.
#[tokio::test]
async fn invariant_50_every_page_is_read() {
    let stage = stage();
    let run = left_three(&stage).await;
    let lie = FakedAnswer {
        posts: |posts| {
            let first = posts[1].clone();
            for n in 0..9 {
                posts.push(OutboxMessage {
                    id: EffectKey::from_stored(&format!("{}-{n}", first.id)),
                    ..first.clone()
                });
            }
        },
        ..FakedAnswer::NONE
    };
    let liar = FakedStore { store: stage.store.clone(), about: run.id(), lie };
    let report = fsck(&liar).await.unwrap();
    assert_eq!((report.violations.len(), report.posts), (9, 12), "{report}");
}

/// A run may end with an effect in doubt, because only a person can resolve it.
#[tokio::test]
async fn a_closed_run_may_leave_a_doubt() {
    let stage = stage();
    let run = stage.driven().await;
    stage.write(&run).await.doubts("charge").fails("in doubt").done().await;
    assert!(stage.fsck().await.is_clean());
}

/// Promise that a run waits for, with a key for settling it.
async fn keyed_promise(stage: &TestStore) -> RunHead {
    let run = stage.driven().await;
    let key = IdempotencyKey::new("stripe:ch_1").unwrap();
    let key = Some(PromiseKey { key, keep_for: HOUR });
    let promise = Promise::pending(promise_of(&run, "payment"), run.id(), stage.now(), None);
    stage.write(&run).await.waits_for("payment", Promise { key, ..promise }).parks().done().await
}

/// A settlement by the key would never reach the waiting run.
#[tokio::test]
async fn invariant_39_a_promise_whose_key_does_not_name_it() {
    let stage = stage();
    let run = keyed_promise(&stage).await;
    assert_eq!(stage.fsck().await.promises, 1);
    let named = |keys: &mut Vec<(StoredKey, KeyRecord)>| {
        keys[0].1.target = KeyTarget::Promise(promise_of_other());
    };
    finds!(&stage, &run, FakedAnswer { keys: named, ..FakedAnswer::NONE }, 39);
    finds!(&stage, &run, FakedAnswer { keys: |keys| keys.clear(), ..FakedAnswer::NONE }, 39);
}

/// G4.2: the key has expired, and no caller can find the pending promise any more.
#[tokio::test]
async fn invariant_39_a_key_that_ends_before_its_promise() {
    let stage = stage();
    let run = keyed_promise(&stage).await;
    let ended = |keys: &mut Vec<_>| faked_store::key_record(keys).expires_at = Some(Timestamp::EPOCH);
    finds!(&stage, &run, FakedAnswer { keys: ended, ..FakedAnswer::NONE }, 39);
}

/// A settled promise that still has its key knows exactly when the key expires.
#[tokio::test]
async fn invariant_39_a_key_that_does_not_end_when_its_promise_says() {
    let stage = stage();
    let run = keyed_promise(&stage).await;
    must!(stage.settle(&run, "payment", "1").await, SettleOutcome::Settled { .. });
    let soon = |keys: &mut Vec<_>| faked_store::key_record(keys).expires_at = Some(Timestamp::EPOCH);
    finds!(&stage, &run, FakedAnswer { keys: soon, ..FakedAnswer::NONE }, 39);
    let never = |keys: &mut Vec<_>| faked_store::key_record(keys).expires_at = None;
    finds!(&stage, &run, FakedAnswer { keys: never, ..FakedAnswer::NONE }, 39);
}

#[tokio::test]
async fn invariant_39_a_key_of_a_promise_that_is_not_there() {
    let stage = stage();
    let run = keyed_promise(&stage).await;
    finds!(&stage, &run, FakedAnswer { promise: |promise| *promise = None, ..FakedAnswer::NONE }, 39);
}

#[tokio::test]
async fn invariant_39_a_key_of_a_promise_that_has_another() {
    let stage = stage();
    let run = keyed_promise(&stage).await;
    let bare = |promise: &mut Option<Promise>| promise.as_mut().unwrap().key = None;
    finds!(&stage, &run, FakedAnswer { promise: bare, ..FakedAnswer::NONE }, 39);
    let lost = |promise: &mut Option<Promise>| {
        promise.as_mut().unwrap().state = PromiseState::KeyTaken { by: promise_of_other() };
    };
    finds!(&stage, &run, FakedAnswer { promise: lost, ..FakedAnswer::NONE }, 39);
}

/// G4.1, S4.15: an early settlement claims its key for exactly as long as it is kept.
#[tokio::test]
async fn invariant_6_a_claimed_key_without_its_settlement() {
    let stage = stage();
    let run = stage.pending().await;
    let early = SettlePromise {
        promise: PromiseRef::Key(IdempotencyKey::new("stripe:ch_1").unwrap()),
        keep_for: Some(HOUR),
        ..settlement_of(&run, "payment", "1")
    };
    must!(stage.store.settle_promise(early).await.unwrap(), SettleOutcome::KeptEarly { .. });
    finds!(&stage, &run, FakedAnswer { early: |kept| kept.clear(), ..FakedAnswer::NONE }, 6);
    finds!(&stage, &run, FakedAnswer { keys: |keys| keys.clear(), ..FakedAnswer::NONE }, 6);
    let later =
        |kept: &mut Vec<StoredEarlySettlement>| kept[0].early.expires_at = Timestamp::EPOCH.plus(1000 * HOUR);
    finds!(&stage, &run, FakedAnswer { early: later, ..FakedAnswer::NONE }, 6);
    stage.pass(HOUR);
    finds!(&stage, &run, FakedAnswer { early: |kept| assert!(kept.is_empty()), ..FakedAnswer::NONE },);
}

/// The run waits for standalone promises, and all of them are settled.
#[tokio::test]
async fn invariant_41_a_run_that_sleeps_on_though_all_that_stands_alone_is_settled() {
    let stage = stage();
    let run = stage.driven().await;
    let mut write = stage.write(&run).await;
    for id in ["one", "two"] {
        let id = PromiseId::standalone(id).unwrap();
        let step = id.to_string();
        write = write.waits_for(&step, Promise::pending(id, RunId::NONE, stage.now(), None));
    }
    let run = write.parks().done().await;
    fn settle(promise: &mut Promise) {
        let settlement = Settlement::Resolved(json("1"));
        promise.state = PromiseState::Settled { at: Timestamp::EPOCH, settlement };
    }
    finds!(&stage, &run, FakedAnswer { log: |log| settle(&mut log.promises[0]), ..FakedAnswer::NONE },);
    finds!(
        &stage,
        &run,
        FakedAnswer { log: |log| log.promises.iter_mut().for_each(settle), ..FakedAnswer::NONE },
        41
    );
}

/// S2.45: a provider does not repeat an event that was acknowledged.
#[tokio::test]
async fn invariant_69_a_webhook_that_nobody_processes() {
    let stage = stage();
    stage.pending().await;
    let id =
        InboundEventId { workspace: WorkspaceId::default(), source: name("stripe"), event: "evt_1".into() };
    let book = stage.store.webhook_store().unwrap();
    let hook = NewInboundEvent { id: id.clone(), headers: Payload::null(), body: Vec::new() };
    must!(book.receive_event(hook).await.unwrap(), ReceiveOutcome::New(_));
    stage.pass(INBOUND_EVENT_OVERDUE_AFTER);
    assert!(stage.fsck().await.is_clean());
    stage.pass(SECOND);
    let report = stage.fsck().await;
    assert_eq!(report.violations.iter().map(|found| found.invariant).collect::<Vec<_>>(), [69], "{report}");
    assert!(report.to_string().contains("evt_1"), "{report}");
    let finish = FinishInboundEvent { id, attempts: 0, status: InboundEventStatus::Failed, outcome: None };
    assert!(book.finish_event(finish).await.unwrap());
    assert!(stage.fsck().await.is_clean());
}

fn promise_of_other() -> hapax_engine::model::PromiseId {
    hapax_engine::model::PromiseId::standalone("another").unwrap()
}

/// A run, and two invoices that are being closed.
async fn two_closings(stage: &TestStore) -> RunHead {
    let run = stage.pending().await;
    for id in ["INV-1", "INV-2"] {
        stage.invoice(&EntityStorage::BuiltIn, id, "approved").await;
        stage.close(&EntityStorage::BuiltIn, id).key(id).begins().await;
    }
    run
}

#[tokio::test]
async fn operations_are_looked_at_until_they_end() {
    let stage = stage();
    let held = stage.closing(&EntityStorage::BuiltIn, "INV-1").await;
    assert_eq!(stage.fsck().await.operations, 1);
    held.doubted().await;
    let report = stage.fsck().await;
    assert_eq!((report.operations, report.is_clean()), (1, true), "one in doubt holds on: {report}");
    let other = stage.closing(&EntityStorage::BuiltIn, "INV-2").await;
    let _ = other.done("1").await;
    assert_eq!(stage.fsck().await.operations, 1);
}

/// S1.24, S1.25: the claim and the operation that holds it are one commit.
#[tokio::test]
async fn invariant_6_an_entity_that_its_holder_did_not_claim() {
    let stage = stage();
    let run = two_closings(&stage).await;
    let lie = FakedAnswer {
        entity: |entity| entity.as_mut().unwrap().status = name("approved"),
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 6);
    finds!(&stage, &run, FakedAnswer { entity: |entity| *entity = None, ..FakedAnswer::NONE }, 6);
}

/// S1.27: no other operation begins while one holds the entity.
#[tokio::test]
async fn invariant_67_an_entity_with_two_holders() {
    let stage = stage();
    let run = two_closings(&stage).await;
    let lie = FakedAnswer {
        operations: |operations| operations[0].entity = operations[1].entity.clone(),
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 68);
}

#[tokio::test]
async fn invariant_7_two_operations_under_one_key() {
    let stage = stage();
    let run = two_closings(&stage).await;
    let lie = FakedAnswer {
        operations: |operations| operations[0].key = operations[1].key.clone(),
        ..FakedAnswer::NONE
    };
    finds!(&stage, &run, lie, 7);
}

#[tokio::test]
async fn an_operation_that_ends_while_it_is_looked_at_is_no_fault() {
    let stage = stage();
    let run = two_closings(&stage).await;
    // It held its entity when it was listed, and has ended when it is read again.
    static SEEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let lie = FakedAnswer {
        entity: |entity| entity.as_mut().unwrap().status = name("closed"),
        operations: |operations| {
            if SEEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
                operations.iter_mut().for_each(|operation| operation.attempt += 1);
            }
        },
        ..FakedAnswer::NONE
    };
    let liar = FakedStore { store: stage.store.clone(), about: run.id(), lie };
    let report = fsck(&liar).await.unwrap();
    assert!(report.is_clean() && report.moving_operations == 2, "{report}");
}
