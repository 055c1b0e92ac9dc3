//! Each verb at first hand.

use std::time::Duration;

use hapax_engine::model::{
    ClosePolicy, CommitBuilder, EventKind, Failure, KeyKind, KeyOnFailure, KeyRetention, Name, NewRun,
    Payload, PendingRequest, Priority, Promise, PromiseId, PromiseRef, PromiseState, Refusal, RunCommand,
    RunFacts, RunHead, RunId, RunResult, RunState, RunStatus, RunningState, SettleRequest, Settlement,
    SignalId, StepChange, StepId, StepKind, StepState, StepTransition, Subject, Subscribers, Version,
    WorkspaceId,
};
use hapax_engine::store::{
    ClaimRuns, CommandRun, CommitOutcome, HeldLease, ListRuns, Purge, RenewLeases, RunCommandOutcome,
    SendSignal, SettleOutcome, SettlePromise, SignalOutcome, StartOutcome, Store, StoreError,
};
use hapax_store_sqlite::SqliteStore;

use crate::fixture::*;

fn signal(run: RunId, id: Option<&str>) -> SendSignal {
    SendSignal {
        workspace: workspace(),
        run,
        name: Name::new("signal", "go").unwrap(),
        payload: Payload::of("now").unwrap(),
        id: id.map(|id| SignalId::new(id).unwrap()),
        note: None,
        grant: None,
    }
}

fn settle(id: &PromiseId, value: &str) -> SettlePromise {
    let settlement = Settlement::Resolved(Payload::of(value).unwrap());
    SettlePromise {
        workspace: workspace(),
        promise: PromiseRef::Id(id.clone()),
        wish: SettleRequest::new(settlement),
        keep_for: None,
        note: None,
        grant: None,
    }
}

fn steer(run: RunId, command: RunCommand) -> CommandRun {
    let announce = Subscribers::default();
    CommandRun { workspace: workspace(), run, command, expected: None, note: None, announce }
}

async fn steered(store: &SqliteStore, request: CommandRun) -> RunHead {
    match store.command_run(request).await.unwrap() {
        RunCommandOutcome::Accepted(head) => head,
        other => panic!("{other:?}"),
    }
}

async fn head(store: &SqliteStore, run: RunId) -> RunHead {
    store.find_run(&workspace(), run).await.unwrap().unwrap().head
}

async fn events(store: &SqliteStore, run: RunId) -> Vec<EventKind> {
    let events = store.list_events(&workspace(), run, Version::default()).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

fn closing(store: &SqliteStore, head: &RunHead, result: RunResult) -> hapax_engine::model::RunCommit {
    let mut write = CommitBuilder::new(head, store.now());
    write.close(result).unwrap();
    write.finish()
}

fn done() -> RunResult {
    RunResult::Completed(Payload::of("done").unwrap())
}

fn failed() -> RunResult {
    RunResult::Failed(Failure::permanent("no such card").with_code("card"))
}

#[tokio::test]
async fn a_run_reads_back_as_it_was_written() {
    let place = TestFolder::new();
    let store = place.open().await;
    let parent = start(&store, granted(facts(1))).await;
    let full = RunFacts {
        subject: Some(Subject::new("order-7").unwrap()),
        priority: Priority::High,
        deadline_at: Some(store.now().plus(LEASE)),
        retention: KeyRetention { keep_for: Some(LEASE), on_failure: KeyOnFailure::Release },
        parent: Some(parent.facts.as_parent(StepId::from_stored("child"), ClosePolicy::Abandon)),
        ..(*with_key(2, "k", "x").facts).clone()
    };
    for (id, new) in [(1, granted(facts(1))), (2, granted(full)), (3, new_run(facts(3)))] {
        let made = start(&store, new.clone()).await;
        let view = store.find_run(&workspace(), RunId::from_u128(id)).await.unwrap().unwrap();
        assert_eq!(view.head, made);
        assert_eq!(view.head.facts, new.facts);
        assert_eq!((view.input, view.result), (new.input, None));
    }
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    assert!(store.find_run(&elsewhere, RunId::from_u128(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_names_one_run_and_a_subject_one_open_run() {
    let place = TestFolder::new();
    let store = place.open().await;
    let first = start(&store, with_key(1, "k", "a")).await;
    assert!(matches!(store.start_run(with_key(1, "k", "a")).await.unwrap(), StartOutcome::Created(_)));
    let again = store.start_run(with_key(2, "k", "a")).await.unwrap();
    assert!(matches!(again, StartOutcome::Existing(head) if head == first));
    let other = store.start_run(with_key(3, "k", "b")).await.unwrap();
    assert!(matches!(other, StartOutcome::KeyConflict { run, .. } if run == first.id()));

    let subject = Some(Subject::new("order-7").unwrap());
    let held = start(&store, granted(RunFacts { subject: subject.clone(), ..facts(4) })).await;
    let second = new_run(RunFacts { subject, ..facts(5) });
    let busy = store.start_run(second.clone()).await.unwrap();
    assert!(matches!(busy, StartOutcome::SubjectBusy { run } if run == held.id()));
    advance(&store, closing(&store, &held, done())).await;
    start(&store, second).await;
}

#[tokio::test]
async fn an_id_of_another_workspace_is_refused() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    let elsewhere = RunFacts { workspace: WorkspaceId::new("elsewhere").unwrap(), ..facts(1) };
    assert!(matches!(store.start_run(new_run(elsewhere)).await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn due_runs_are_claimed_by_priority_then_by_how_long_they_are_due() {
    let place = TestFolder::new();
    let store = place.open().await;
    let now = store.now();
    let due_in = |ms| now.plus(Duration::from_millis(ms));
    start(&store, NewRun { due_at: Some(due_in(2)), ..new_run(facts(1)) }).await;
    start(&store, NewRun { due_at: Some(due_in(1)), ..new_run(facts(2)) }).await;
    let high = RunFacts { priority: Priority::High, ..facts(3) };
    start(&store, NewRun { due_at: Some(due_in(3)), ..new_run(high) }).await;
    let nothing = store.claim_runs(claim(1)).await.unwrap();
    assert!(nothing.runs.is_empty());
    assert_eq!(nothing.next_wake_at, Some(due_in(1)));
    place.clock.advance(Duration::from_millis(3));
    let two = store.claim_runs(ClaimRuns { limit: 2, ..claim(1) }).await.unwrap();
    assert_eq!(two.runs.iter().map(|run| run.id().as_u128()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(two.next_wake_at, Some(due_in(2)), "one more is due");
    let last = store.claim_runs(claim(1)).await.unwrap();
    assert_eq!(last.runs.len(), 1);
    assert_eq!(last.next_wake_at, Some(store.now().plus(LEASE)), "a lease may end");
    assert_eq!(head(&store, RunId::from_u128(2)).await, two.runs[1]);
    assert_eq!(events(&store, RunId::from_u128(2)).await, [EventKind::Started, EventKind::Claimed]);
}

#[tokio::test]
async fn a_lease_is_renewed_by_its_holder_and_taken_over_when_it_ends() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let renewal = RenewLeases {
        owner: grant(1).owner,
        lease_for: LEASE,
        leases: vec![HeldLease { workspace: workspace(), run: held.id(), fence: held.fence }],
    };
    place.clock.advance(LEASE / 2);
    assert!(store.renew_leases(renewal.clone()).await.unwrap().is_empty());
    place.clock.advance(LEASE / 2);
    assert!(store.claim_runs(claim(2)).await.unwrap().runs.is_empty(), "it was renewed");
    // A write of the holder, who does not know how far the lease was moved, does not move it back.
    advance(&store, one_step(&store, &held, "a")).await;
    assert!(store.claim_runs(claim(2)).await.unwrap().runs.is_empty(), "it is still renewed");
    place.clock.advance(LEASE / 2);
    let taken = store.claim_runs(claim(2)).await.unwrap().runs;
    assert_eq!((taken[0].fence, taken[0].stalls), (held.fence.next(), 1));
    assert_eq!(store.renew_leases(renewal).await.unwrap(), [held.id()]);
}

#[tokio::test]
async fn steps_are_recorded_under_version_and_fence() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let write = one_step(&store, &held, "charge");
    let after = advance(&store, write.clone()).await;
    assert_eq!(head(&store, held.id()).await, after);
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(log.steps, write.steps);

    let own = store.commit_run(write).await.unwrap();
    assert!(matches!(own, CommitOutcome::Committed { .. }), "its own write is known again");
    let stale = store.commit_run(one_step(&store, &held, "b")).await.unwrap();
    assert!(matches!(stale, CommitOutcome::Stale(head) if head == after));
    place.clock.advance(LEASE);
    store.claim_runs(claim(2)).await.unwrap();
    let lost = store.commit_run(one_step(&store, &after, "b")).await.unwrap();
    assert!(matches!(lost, CommitOutcome::LeaseLost));
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(log.steps.len(), 1, "nothing of the refused writes is there");
}

/// Invariant 18: the fence guards by itself, also where the version would let the write pass.
#[tokio::test]
async fn no_kind_of_write_passes_under_an_old_fence() {
    let place = TestFolder::new();
    let store = place.open().await;
    let old = start(&store, granted(facts(1))).await;
    place.clock.advance(LEASE);
    let taken = store.claim_runs(claim(2)).await.unwrap().runs.remove(0);
    // As the holder of the old fence would write if it knew the version.
    let zombie = RunHead { fence: old.fence, ..taken.clone() };
    let mut park = CommitBuilder::new(&zombie, store.now());
    park.wait(None, 0).unwrap();
    let mut again = CommitBuilder::new(&zombie, store.now());
    again.continue_as_new(Payload::null()).unwrap();
    let close = closing(&store, &zombie, done());
    for write in [one_step(&store, &zombie, "a"), park.finish(), again.finish(), close] {
        let refused = store.commit_run(write).await.unwrap();
        assert!(matches!(refused, CommitOutcome::LeaseLost), "{refused:?}");
    }
    assert_eq!(head(&store, taken.id()).await, taken);
}

#[tokio::test]
async fn every_state_of_a_step_reads_back() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let at = store.now();
    let failure = Failure::retryable("busy").with_code("429").retry_after(LEASE);
    let states = [
        StepState::Pending { due_at: at, failure: failure.clone() },
        StepState::Running,
        StepState::Waiting { until: None },
        StepState::Waiting { until: Some(at) },
        StepState::Completed { at, output: Payload::of("x").unwrap() },
        StepState::Failed { at, failure: failure.clone() },
        StepState::Skipped { at },
        StepState::Cancelled { at },
        StepState::InDoubt { since: at, failure },
    ];
    let mut write = one_step(&store, &held, "template");
    let template = write.steps.remove(0);
    for (n, state) in states.into_iter().enumerate() {
        let started_version = Version::new(2 + n as u64);
        let kind = StepKind::ALL[n % StepKind::ALL.len()];
        let id = StepId::from_stored(&format!("step-{}", 100 - n));
        let child = (kind == StepKind::Child).then(|| RunId::from_u128(99));
        write.steps.push(hapax_engine::model::StepRecord {
            id,
            kind,
            state,
            child,
            started_version,
            changed_version: started_version,
            ..template.clone()
        });
    }
    let expected = write.steps.clone();
    advance(&store, write).await;
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(log.steps, expected, "in the order they started");
}

#[tokio::test]
async fn a_run_that_parks_without_having_seen_all_is_due_at_once() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let stored = store.send_signal(signal(held.id(), Some("s1"))).await.unwrap();
    assert!(matches!(stored, SignalOutcome::Stored { seq: 1, granted: None }));
    let again = store.send_signal(signal(held.id(), Some("s1"))).await.unwrap();
    assert!(matches!(again, SignalOutcome::Duplicate));

    let mut park = CommitBuilder::new(&held, store.now());
    park.wait(None, 0).unwrap();
    let parked = store.commit_run(park.finish()).await.unwrap();
    assert!(matches!(parked, CommitOutcome::Committed { woken, .. } if woken == [held.id()]));
    let claimed = store.claim_runs(claim(2)).await.unwrap().runs.remove(0);
    assert_eq!(claimed.arrivals, 1);

    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(log.signals.len(), 1);
    let mut park = CommitBuilder::new(&claimed, store.now());
    park.consume_signal(1);
    park.wait(None, 1).unwrap();
    advance(&store, park.finish()).await;
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!((log.signals.len(), log.head.state), (0, RunState::Waiting { wake_at: None }));
    let again = store.send_signal(signal(held.id(), Some("s1"))).await.unwrap();
    assert!(matches!(again, SignalOutcome::Duplicate), "also after it was consumed");

    let offer = SendSignal { grant: Some(grant(3)), ..signal(held.id(), None) };
    let SignalOutcome::Stored { seq: 2, granted: Some(granted) } = store.send_signal(offer).await.unwrap()
    else {
        panic!("a waiting run is granted to whoever offers");
    };
    assert_eq!(granted, head(&store, held.id()).await);
    assert_eq!(granted.state.lease().unwrap().owner, grant(3).owner);
}

#[tokio::test]
async fn a_promise_settles_once_and_wakes_its_run() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let deadline_at = Some(store.now().plus(LEASE));
    let promise = |name: &str| {
        let id = PromiseId::for_step(held.id(), held.generation, &StepId::from_stored(name));
        Promise::pending(id, held.id(), store.now(), deadline_at)
    };
    let mut park = CommitBuilder::new(&held, store.now());
    park.open_promise(promise("paid"));
    park.open_promise(promise("shipped"));
    park.wait(deadline_at, 0).unwrap();
    advance(&store, park.finish()).await;

    let paid = promise("paid").id;
    assert!(matches!(
        store.settle_promise(settle(&paid, "yes")).await.unwrap(),
        SettleOutcome::Settled { granted: None, .. }
    ));
    for (value, expected) in [("yes", true), ("no", false)] {
        let again = store.settle_promise(settle(&paid, value)).await.unwrap();
        assert!(matches!(again, SettleOutcome::AlreadySettled { same, .. } if same == expected));
    }
    let woken = store.claim_runs(claim(1)).await.unwrap().runs.remove(0);

    // The holder believes that both timed out, but one was settled.
    place.clock.advance(LEASE / 2);
    let time_out = |names: &[&str]| {
        let mut write = CommitBuilder::new(&woken, store.now());
        step(&mut write, &store, "a");
        names.iter().for_each(|name| write.time_out_promise(promise(name).id));
        write.finish()
    };
    let refused = store.commit_run(time_out(&["shipped", "paid"])).await.unwrap();
    assert!(matches!(refused, CommitOutcome::Stale(head) if head == woken));
    advance(&store, time_out(&["shipped"])).await;
    let late = store.settle_promise(settle(&promise("shipped").id, "yes")).await.unwrap();
    assert!(matches!(late, SettleOutcome::TimedOut { .. }));
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert!(matches!(log.promises[0].state, PromiseState::Settled { .. }));
    assert_eq!(log.promises[1].state, PromiseState::TimedOut);
    let nobody = PromiseId::from_stored("nobody");
    assert!(matches!(
        store.settle_promise(settle(&nobody, "yes")).await.unwrap(),
        SettleOutcome::NoSuchPromise
    ));
}

#[tokio::test]
async fn a_promise_past_its_deadline_has_timed_out_for_all_who_look() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let id = PromiseId::from_stored("p");
    let mut write = CommitBuilder::new(&held, store.now());
    let deadline_at = Some(store.now().plus(LEASE));
    write.open_promise(Promise::pending(id.clone(), held.id(), store.now(), deadline_at));
    step(&mut write, &store, "a");
    advance(&store, write.finish()).await;
    let find = || async { store.find_promise(&workspace(), &id).await.unwrap().unwrap().state };
    assert_eq!(find().await, PromiseState::Pending);
    place.clock.advance(LEASE);
    assert_eq!(find().await, PromiseState::TimedOut);
}

#[tokio::test]
async fn continue_as_new_begins_with_a_new_input_and_an_empty_history() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let held = advance(&store, one_step(&store, &held, "a")).await;
    let mut write = CommitBuilder::new(&held, store.now());
    step(&mut write, &store, "b");
    write.continue_as_new(Payload::of("next").unwrap()).unwrap();
    step(&mut write, &store, "a");
    let held = advance(&store, write.finish()).await;
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!((log.head, log.input), (held, Payload::of("next").unwrap()));
    assert_eq!(log.steps.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn the_end_of_a_run_reaches_its_key_its_parent_and_its_children() {
    let place = TestFolder::new();
    let store = place.open().await;
    let parent = start(&store, granted(facts(1))).await;
    let child_of = |id, on_close| RunFacts {
        parent: Some(parent.facts.as_parent(StepId::from_stored("c"), on_close)),
        ..facts(id)
    };
    let mut write = CommitBuilder::new(&parent, store.now());
    for (id, on_close) in [(2, ClosePolicy::Cancel), (3, ClosePolicy::Abandon), (4, ClosePolicy::Cancel)] {
        write.start_child(new_run(child_of(id, on_close)));
    }
    let wait = StepChange {
        id: StepId::from_stored("c"),
        kind: StepKind::Child,
        previous: None,
        transition: StepTransition::Await,
        state: StepState::Waiting { until: None },
        attempts: 0,
        started_at: store.now(),
        child: Some(RunId::from_u128(4)),
    };
    write.step(wait).unwrap();
    write.wait(None, 0).unwrap();
    let CommitOutcome::Committed { woken, .. } = store.commit_run(write.finish()).await.unwrap() else {
        panic!("the parent holds its lease");
    };
    assert_eq!(woken, [2, 3, 4].map(RunId::from_u128));

    let claimed = store.claim_runs(claim(1)).await.unwrap().runs;
    let fourth = claimed.iter().find(|run| run.id().as_u128() == 4).unwrap();
    let ended = store.commit_run(closing(&store, fourth, done())).await.unwrap();
    assert!(matches!(ended, CommitOutcome::Committed { woken, .. } if woken == [parent.id()]));
    let log = store.find_log(&workspace(), parent.id()).await.unwrap().unwrap();
    assert_eq!(log.children, [(RunId::from_u128(4), Some(done()))]);

    let parent = store.claim_runs(claim(1)).await.unwrap().runs.remove(0);
    advance(&store, closing(&store, &parent, failed())).await;
    assert_eq!(head(&store, RunId::from_u128(2)).await.asked, PendingRequest::Cancel);
    assert_eq!(head(&store, RunId::from_u128(3)).await.asked, PendingRequest::Nothing);
    let view = store.find_run(&workspace(), parent.id()).await.unwrap().unwrap();
    assert_eq!((view.head.status(), view.result), (RunStatus::Failed, Some(failed())));
}

#[tokio::test]
async fn a_key_ages_from_the_end_of_its_run_and_is_purged() {
    let place = TestFolder::new();
    let store = place.open().await;
    let mut new = with_key(1, "k", "a");
    let retention = KeyRetention { keep_for: Some(LEASE), on_failure: KeyOnFailure::Keep };
    new.facts = RunFacts { retention, ..(*new.facts).clone() }.into();
    new.grant = Some(grant(1));
    let held = start(&store, new.clone()).await;
    let key = new.facts.key.clone().unwrap();
    let find = || async { store.find_key(&workspace(), KeyKind::Run, &key).await.unwrap() };
    assert_eq!(find().await.unwrap().expires_at, None);
    advance(&store, closing(&store, &held, done())).await;
    assert_eq!(find().await.unwrap().expires_at, Some(store.now().plus(LEASE)));

    let purge = |before| Purge { runs_closed_before: before, after: None, limit: 10 };
    place.clock.advance(Duration::from_millis(1));
    let purged = store.purge(purge(Some(store.now()))).await.unwrap();
    assert_eq!((purged.keys, purged.runs, purged.next), (0, 1, None));
    assert!(store.find_run(&workspace(), held.id()).await.unwrap().is_none());
    assert!(store.list_events(&workspace(), held.id(), Version::default()).await.unwrap().is_empty());
    let spent = store.start_run(with_key(2, "k", "a")).await.unwrap();
    assert!(matches!(spent, StartOutcome::Spent { run } if run == held.id()));
    place.clock.advance(LEASE);
    assert_eq!(store.purge(purge(None)).await.unwrap().keys, 1);
    assert!(find().await.is_none());
    start(&store, with_key(3, "k", "b")).await;
}

#[tokio::test]
async fn keys_that_expired_together_go_in_their_order() {
    let place = TestFolder::new();
    let store = place.open().await;
    let retention = KeyRetention { keep_for: Some(LEASE), on_failure: KeyOnFailure::Keep };
    for (id, workspace) in [(1, "b"), (2, "a")] {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let keyed = RunFacts { workspace, retention, ..(*with_key(id, "k", "x").facts).clone() };
        let held = start(&store, granted(keyed)).await;
        advance(&store, closing(&store, &held, done())).await;
    }
    place.clock.advance(LEASE);
    let purge = Purge { runs_closed_before: None, after: None, limit: 1 };
    assert_eq!(store.purge(purge).await.unwrap().keys, 1);
    let left = store.list_keys(None).await.unwrap();
    assert_eq!(left[0].0.workspace.as_str(), "b", "the order of names, not of their numbers");
}

#[tokio::test]
async fn people_pause_resume_cancel_and_retry() {
    let place = TestFolder::new();
    let store = place.open().await;
    let cancel = || RunCommand::Cancel { reason: "customer left".into() };

    let waiting = start(&store, new_run(facts(1))).await;
    assert_eq!(steered(&store, steer(waiting.id(), RunCommand::Pause)).await.state, RunState::Paused);
    assert!(store.claim_runs(claim(1)).await.unwrap().runs.is_empty());
    let resumed = steered(&store, steer(waiting.id(), RunCommand::Resume)).await;
    assert_eq!(resumed.state, RunState::Running(RunningState::Ready { due_at: store.now() }));
    assert_eq!(head(&store, waiting.id()).await, resumed);
    let old = CommandRun { expected: Some(waiting.version), ..steer(waiting.id(), cancel()) };
    let stale = store.command_run(old).await.unwrap();
    assert!(matches!(stale, RunCommandOutcome::Refused(Refusal::Stale(at), _) if at == resumed.version));

    let never_ran = start(&store, new_run(facts(2))).await;
    assert_eq!(steered(&store, steer(never_ran.id(), cancel())).await.status(), RunStatus::Cancelled);
    let view = store.find_run(&workspace(), never_ran.id()).await.unwrap().unwrap();
    assert!(matches!(view.result, Some(RunResult::Cancelled(_))));

    let subject = Some(Subject::new("order-7").unwrap());
    let keyed = RunFacts { subject, ..(*with_key(3, "k", "a").facts).clone() };
    let held = start(&store, granted(keyed)).await;
    let held = advance(&store, one_step(&store, &held, "a")).await;
    advance(&store, closing(&store, &held, failed())).await;
    let retried = steered(&store, steer(held.id(), RunCommand::retry(None))).await;
    let view = store.find_run(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!((view.head, view.result), (retried, None));
    let from_a = RunCommand::retry(Some(StepId::from_stored("a")));
    let again = store.claim_runs(claim(1)).await.unwrap().runs;
    let again = again.iter().find(|run| run.id() == held.id()).unwrap();
    advance(&store, closing(&store, again, failed())).await;
    steered(&store, steer(held.id(), from_a)).await;
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert!(log.steps.is_empty());
    let nobody = store.command_run(steer(RunId::from_u128(99), RunCommand::Pause)).await.unwrap();
    assert!(matches!(nobody, RunCommandOutcome::NoSuchRun));
}

#[tokio::test]
async fn a_retry_does_not_take_a_key_or_a_subject_from_another_run() {
    let place = TestFolder::new();
    let store = place.open().await;
    let release = KeyRetention { keep_for: None, on_failure: KeyOnFailure::Release };
    let keyed = |id| RunFacts { retention: release, ..(*with_key(id, "k", "a").facts).clone() };
    let subject = |id| RunFacts { subject: Some(Subject::new("s").unwrap()), ..facts(id) };
    for (first, second) in [(keyed(1), keyed(2)), (subject(3), subject(4))] {
        let held = start(&store, granted(first)).await;
        advance(&store, closing(&store, &held, failed())).await;
        let other = start(&store, granted(second)).await;
        let refused = store.command_run(steer(held.id(), RunCommand::retry(None))).await.unwrap();
        let RunCommandOutcome::Refused(refusal, _) = refused else { panic!("{refused:?}") };
        let taken = [Refusal::KeyTaken(other.id()), Refusal::SubjectBusy(other.id())];
        assert!(taken.contains(&refusal), "{refusal:?}");
        assert_eq!(head(&store, held.id()).await.status(), RunStatus::Failed);
    }
}

#[tokio::test]
async fn lists_are_newest_first_and_filtered() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..=6 {
        start(&store, granted(facts(id))).await;
    }
    let find = |id| head(&store, RunId::from_u128(id));
    advance(&store, closing(&store, &find(2).await, done())).await;
    advance(&store, closing(&store, &find(3).await, failed())).await;
    let mut pause = CommitBuilder::new(&find(4).await, store.now());
    pause.pause(None).unwrap();
    advance(&store, pause.finish()).await;
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    start(&store, new_run(RunFacts { workspace: elsewhere.clone(), ..facts(7) })).await;

    let list = |workspace: Option<WorkspaceId>, statuses: &[RunStatus], before: Option<u128>, limit| {
        let before = before.map(RunId::from_u128);
        let request = ListRuns {
            workspace,
            statuses: statuses.to_vec(),
            workflow: None,
            filter: Default::default(),
            before,
            limit,
        };
        let store = &store;
        async move {
            let page = store.list_runs(request).await.unwrap();
            let ids: Vec<u128> = page.runs.iter().map(|run| run.head.id().as_u128()).collect();
            (ids, page.next.map(RunId::as_u128))
        }
    };
    let own = || Some(workspace());
    assert_eq!(list(own(), &[], None, 4).await, (vec![6, 5, 4, 3], Some(3)));
    assert_eq!(list(own(), &[], Some(3), 4).await, (vec![2, 1], None));
    assert_eq!(list(None, &[], None, 3).await, (vec![7, 6, 5], Some(5)));
    for workspace in [own(), None] {
        let some = [RunStatus::Failed, RunStatus::Completed, RunStatus::Paused];
        assert_eq!(list(workspace.clone(), &some, None, 2).await, (vec![4, 3], Some(3)));
        assert_eq!(list(workspace.clone(), &some, Some(3), 2).await, (vec![2], None));
        assert_eq!(list(workspace, &[RunStatus::Running], Some(6), 9).await, (vec![5, 1], None));
    }
    let mut request = ListRuns {
        workspace: None,
        statuses: vec![],
        workflow: Some(workflow().name),
        filter: Default::default(),
        before: None,
        limit: 9,
    };
    assert_eq!(store.list_runs(request.clone()).await.unwrap().runs.len(), 7);
    request.workflow = Some(Name::new("workflow", "unheard-of").unwrap());
    assert!(store.list_runs(request).await.unwrap().runs.is_empty());
}

#[tokio::test]
async fn keys_are_listed_in_order_across_workspaces() {
    let place = TestFolder::new();
    let store = place.open().await;
    for (id, workspace, key) in [(1, "b", "1"), (2, "a", "2"), (3, "b", "0"), (4, "a", "1")] {
        let mut new = with_key(id, key, "x");
        let workspace = WorkspaceId::new(workspace).unwrap();
        new.facts = RunFacts { workspace, ..(*new.facts).clone() }.into();
        start(&store, new).await;
    }
    let mut keys: Vec<_> = store.list_keys(None).await.unwrap().into_iter().map(|(place, _)| place).collect();
    let shown: Vec<_> = keys.iter().map(|place| format!("{}{}", place.workspace, place.key)).collect();
    assert_eq!(shown, ["a1", "a2", "b0", "b1"]);
    let rest = store.list_keys(Some(keys.remove(1))).await.unwrap();
    assert_eq!(rest.into_iter().map(|(place, _)| place).collect::<Vec<_>>(), keys[1..]);
}

#[tokio::test]
async fn nothing_is_known_of_a_workspace_that_was_never_used() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    let request = SendSignal { workspace: elsewhere.clone(), ..signal(held.id(), None) };
    assert!(matches!(store.send_signal(request).await.unwrap(), SignalOutcome::NoSuchRun));
    let request = CommandRun { workspace: elsewhere.clone(), ..steer(held.id(), RunCommand::Pause) };
    assert!(matches!(store.command_run(request).await.unwrap(), RunCommandOutcome::NoSuchRun));
    assert!(store.find_log(&elsewhere, held.id()).await.unwrap().is_none());
}
