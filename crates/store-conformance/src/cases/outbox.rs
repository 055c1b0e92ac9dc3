//! After-effects: committed with the step that caused them, and delivered at least once.

use hapax_engine::limits::{MAX_CLAIM, MAX_PAGE};
use hapax_engine::model::{
    Failure, JournalEvent, OutboxMessage, OutboxState, OutboxStatus, RunCommand, RunHead, StepId, Timestamp,
    WorkspaceId,
};
use hapax_engine::store::{
    CommitOutcome, FinishOutboxMessage, ListOutbox, OutboxCommand, OutboxDepth, Redeliver, RedeliverOutcome,
};

use crate::fixture::*;
use crate::must;

/// A driven run with one after-effect.
async fn left_one(t: &TestStore) -> RunHead {
    let run = t.driven().await;
    t.write(&run).await.leaves("notify", "mail").done().await
}

fn ids(posts: &[OutboxMessage]) -> Vec<&str> {
    posts.iter().map(|post| post.id.as_str()).collect()
}

async fn only(t: &TestStore) -> OutboxMessage {
    let mut posts = t.posts().await;
    assert_eq!(posts.len(), 1, "{posts:?}");
    posts.remove(0)
}

fn due(at: Timestamp) -> OutboxState {
    OutboxState::Due { at }
}

/// Invariant 50: an after-effect is stored unchanged, in the same write as its step.
pub(super) async fn an_after_effect_comes_with_its_step(t: &TestStore) {
    let run = t.driven().await;
    let now = t.now();
    let given = OutboxMessage {
        attempts: 3,
        failure: Some(Failure::retryable("was \"busy\"").with_code("503")),
        state: due(now.plus(HOUR)),
        ..post_of(&run, run.generation, "later", "hook", now)
    };
    let run = t.write(&run).await.leaves("notify", "mail").leaves_post("later", given.clone()).done().await;
    assert_eq!(t.posts().await, [given, post_of(&run, run.generation, "notify", "mail", now)]);
    let run = t.write(&run).await.continues_with("2").leaves("notify", "mail").done().await;
    assert_eq!(t.posts().await.len(), 3, "each generation leaves its own");
    assert!(t.posts().await.contains(&post_of(&run, run.generation, "notify", "mail", now)));
}

/// Invariant 3: a refused write adds no after-effect.
pub(super) async fn a_refused_write_leaves_no_after_effect(t: &TestStore) {
    let run = t.driven().await;
    let late = t.write(&run).await.leaves("notify", "mail").advance();
    t.write(&run).await.does("charge").done().await;
    must!(t.store.commit_run(late.clone()).await.unwrap(), CommitOutcome::Stale(_));
    t.pass(LEASE);
    t.claim_one(BOB).await;
    must!(t.store.commit_run(late).await.unwrap(), CommitOutcome::LeaseLost);
    assert_eq!(t.posts().await, []);
    assert_eq!(t.claim_outbox(ANN, &[("mail", 10)]).await, Default::default());
}

/// A repeated write does not restore an after-effect that was delivered.
pub(super) async fn a_write_sent_again_leaves_nothing_twice(t: &TestStore) {
    let run = t.driven().await;
    let write = t.write(&run).await.leaves("notify", "mail").advance();
    must!(t.store.commit_run(write.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    t.delivered(&t.claim_post(ANN).await).await;
    must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { .. });
    assert_eq!(only(t).await.state.status(), OutboxStatus::Delivered);
}

/// A repeated step finds its after-effect unchanged.
pub(super) async fn an_after_effect_that_is_there_stays_as_it_is(t: &TestStore) {
    let run = left_one(t).await;
    t.delivered(&t.claim_post(ANN).await).await;
    let before = only(t).await;
    let run = t.write(&run).await.fails("no").done().await;
    t.pass(SECOND);
    t.steered(&run, RunCommand::retry(Some(StepId::from_stored("notify")))).await;
    assert_eq!(only(t).await, before, "a retry forgets the step, not what it left");
    let run = t.claim_one(BOB).await;
    t.write(&run).await.leaves("notify", "hook").done().await;
    assert_eq!(only(t).await, before);
}

/// After-effects are claimed by due time, then by id, in all workspaces. A claim lasts for a limited time.
pub(super) async fn the_longest_due_is_claimed_first(t: &TestStore) {
    let abroad = t.order().workspace("abroad").granted_to(ANN).start().await;
    let here = t.driven().await;
    let afar = t.order().workspace("afar").granted_to(ANN).start().await;
    let now = t.now();
    let later = |run: &RunHead, step: &str, at: Timestamp| OutboxMessage {
        state: due(at),
        ..post_of(run, run.generation, step, "mail", now)
    };
    for run in [&afar, &here, &abroad] {
        t.write(run).await.leaves("notify", "mail").done().await;
    }
    let here = t.head(&here).await;
    let write = t.write(&here).await.leaves_post("later", later(&here, "later", now.plus(HOUR)));
    let early = Timestamp::from_millis(now.as_millis() - 1);
    write.leaves_post("early", later(&here, "early", early)).done().await;
    let claimed = t.claim_outbox(ANN, &[("mail", 10)]).await.posts;
    let expected = [(&here, "early"), (&abroad, "notify"), (&here, "notify"), (&afar, "notify")];
    let expected = expected.map(|(run, step)| post_of(run, run.generation, step, "mail", now).id);
    assert_eq!(ids(&claimed), expected.each_ref().map(|id| id.as_str()));
    let until = now.plus(LEASE);
    for post in &claimed {
        assert_eq!((post.attempts, post.state), (1, OutboxState::Claimed { owner: ANN, until }));
        assert!(t.posts().await.contains(post), "it is as the claimer was told");
    }
    assert_eq!(t.claim_outbox(BOB, &[("mail", 10)]).await.posts, []);
}

/// A target with many after-effects does not starve a target with few.
pub(super) async fn each_target_has_room_of_its_own(t: &TestStore) {
    let run = t.driven().await;
    let mut write = t.write(&run).await;
    for n in 0..6 {
        write = write.leaves(&format!("mail-{n}"), "mail");
    }
    write.leaves("x", "hook").leaves("y", "print").done().await;
    let steps = |posts: &[OutboxMessage]| {
        let step = |post: &OutboxMessage| post.id.as_str().split(':').nth(1).expect("a step").to_owned();
        posts.iter().map(step).collect::<Vec<_>>()
    };
    let first = t.claim_outbox(ANN, &[("mail", 2), ("nobody", 5), ("hook", 2), ("print", 0)]).await;
    assert_eq!(steps(&first.posts), ["mail-0", "mail-1", "x"]);
    assert_eq!(first.next_due_at, Some(t.now()), "there is more than there was room for");
    let second = t.claim_outbox(BOB, &[("hook", 9), ("mail", 9)]).await;
    assert_eq!(steps(&second.posts), ["mail-2", "mail-3", "mail-4", "mail-5"]);
    assert_eq!(t.claim_outbox(BOB, &[]).await, Default::default());
    assert_eq!(steps(&t.claim_outbox(BOB, &[("print", 1)]).await.posts), ["y"]);
}

/// A claim returns the next due time of the after-effects that it did not grant.
pub(super) async fn a_claim_of_after_effects_says_when_to_come_again(t: &TestStore) {
    let run = t.driven().await;
    let now = t.now();
    let at = |step: &str, target: &str, span| OutboxMessage {
        state: due(now.plus(span)),
        ..post_of(&run, run.generation, step, target, now)
    };
    let write = t.write(&run).await.leaves("now", "mail").leaves_post("a", at("a", "mail", HOUR));
    write.leaves_post("b", at("b", "hook", SECOND)).done().await;
    let mail = t.claim_outbox(ANN, &[("mail", 5)]).await;
    assert_eq!((mail.posts.len(), mail.next_due_at), (1, Some(now.plus(HOUR))));
    let both = t.claim_outbox(ANN, &[("hook", 5), ("mail", 5)]).await;
    assert_eq!((both.posts.len(), both.next_due_at), (0, Some(now.plus(SECOND))));
    let mail = t.claim_outbox(ANN, &[("mail", 5)]).await;
    assert_eq!(mail.next_due_at, Some(now.plus(LEASE)), "the end of a claim counts");
    assert_eq!(t.claim_outbox(ANN, &[("nobody", 5)]).await.next_due_at, None);
    t.pass(SECOND);
    let hook = t.claim_outbox(ANN, &[("hook", 5)]).await;
    assert_eq!((hook.posts.len(), hook.next_due_at), (1, None), "what is claimed now does not count");
}

/// An expired delivery claim makes the after-effect due again, for any node.
pub(super) async fn an_ended_claim_is_due_again(t: &TestStore) {
    left_one(t).await;
    let first = t.claim_post(ANN).await;
    t.pass(LEASE - std::time::Duration::from_millis(1));
    assert_eq!(t.claim_outbox(BOB, &[("mail", 5)]).await.posts, []);
    t.pass(std::time::Duration::from_millis(1));
    let second = t.claim_post(BOB).await;
    let until = t.now().plus(LEASE);
    let state = OutboxState::Claimed { owner: BOB, until };
    assert_eq!(second, OutboxMessage { attempts: 2, state, ..first.clone() });
    t.pass(LEASE);
    assert_eq!(t.claim_post(BOB).await.attempts, 3);
}

/// Only the holder of the current attempt can report its outcome, once.
pub(super) async fn only_the_holder_says_how_it_went(t: &TestStore) {
    left_one(t).await;
    let first = t.claim_post(ANN).await;
    let done = OutboxState::Delivered { at: t.now() };
    let told = finish_of(&first, done, None);
    let wrong = [
        FinishOutboxMessage { owner: BOB, ..told.clone() },
        FinishOutboxMessage { attempt: 2, ..told.clone() },
        FinishOutboxMessage { attempt: 0, ..told.clone() },
        FinishOutboxMessage { workspace: WorkspaceId::new("abroad").unwrap(), ..told.clone() },
        FinishOutboxMessage { id: hapax_engine::model::EffectKey::from_stored("nothing"), ..told.clone() },
    ];
    for request in wrong {
        assert!(!t.store.finish_outbox_message(request.clone()).await.unwrap(), "{request:?}");
    }
    assert_eq!(only(t).await, first);
    t.pass(LEASE);
    let second = t.claim_post(ANN).await;
    assert!(!t.finish(&first, done).await, "the attempt is over");
    assert_eq!(only(t).await, second);
    assert!(t.finish(&second, done).await);
    assert!(!t.finish(&second, OutboxState::Dead { at: t.now() }).await, "it is said");
    assert_eq!(only(t).await, OutboxMessage { state: done, ..second });
}

/// The holder can still report after its claim expired, as long as no other node has claimed the delivery.
pub(super) async fn an_ended_claim_that_nobody_took_still_counts(t: &TestStore) {
    left_one(t).await;
    let claimed = t.claim_post(ANN).await;
    t.pass(HOUR);
    t.delivered(&claimed).await;
    assert_eq!(only(t).await.state, OutboxState::Delivered { at: t.now() });
}

/// A failed delivery is due later, with its reason. An abandoned or finished delivery is never claimed again.
/// Monitoring sees how many are waiting.
pub(super) async fn a_delivery_is_done_retried_or_abandoned(t: &TestStore) {
    let measure = || async { t.store.measure_outbox().await.unwrap() };
    assert_eq!(measure().await, OutboxDepth::default());
    left_one(t).await;
    let made = only(t).await.created_at;
    let waiting = OutboxDepth { undelivered: 1, oldest_at: Some(made), dead: 0, first_due_at: Some(made) };
    assert_eq!(measure().await, waiting);
    t.pass(SECOND);
    let first = t.claim_post(ANN).await;
    let first_due_at = first.state.due_at();
    assert_eq!(
        measure().await,
        OutboxDepth { first_due_at, ..waiting },
        "what is being delivered waits, too"
    );
    let why = Failure::retryable("no \"answer\"").with_code("503").retry_after(SECOND);
    let later = due(t.now().plus(HOUR));
    assert!(t.store.finish_outbox_message(finish_of(&first, later, Some(why.clone()))).await.unwrap());
    assert_eq!(only(t).await, OutboxMessage { state: later, failure: Some(why.clone()), ..first });
    assert_eq!(t.claim_outbox(BOB, &[("mail", 5)]).await.next_due_at, Some(t.now().plus(HOUR)));
    let first_due_at = later.due_at();
    assert_eq!(
        measure().await,
        OutboxDepth { first_due_at, ..waiting },
        "what is to be tried again is not late"
    );
    t.pass(HOUR);
    let second = t.claim_post(BOB).await;
    assert_eq!((second.attempts, &second.failure), (2, &Some(why)));
    let dead = OutboxState::Dead { at: t.now() };
    let gone = Some(Failure::permanent("gone"));
    assert!(t.store.finish_outbox_message(finish_of(&second, dead, gone.clone())).await.unwrap());
    assert_eq!(only(t).await, OutboxMessage { state: dead, failure: gone, ..second });
    assert_eq!(measure().await, OutboxDepth { dead: 1, ..OutboxDepth::default() });
    left_one(t).await;
    t.delivered(&t.claim_post(ANN).await).await;
    t.pass(1000 * HOUR);
    assert_eq!(t.claim_outbox(BOB, &[("mail", 5)]).await, Default::default());
}

/// Monitoring sees the most overdue after-effect of any target, including one that no node serves.
pub(super) async fn the_most_overdue_after_effect_is_known_for_every_target(t: &TestStore) {
    let run = t.driven().await;
    let now = t.now();
    let mut write = t.write(&run).await;
    for (step, target, after) in [
        ("a", "hook", 3),
        ("b", "hook", 9),
        ("c", "mail", 5),
        ("d", "mail", 2),
        ("e", "telex", 1),
        ("f", "telex", 4),
    ] {
        let state = due(now.plus(after * SECOND));
        let post = OutboxMessage { state, ..post_of(&run, run.generation, step, target, now) };
        write = write.leaves_post(step, post);
    }
    write.done().await;
    let first = || async { t.store.measure_outbox().await.unwrap().first_due_at };
    t.pass(HOUR);
    for (target, next) in [("telex", 2), ("mail", 3), ("hook", 4)] {
        assert_eq!(t.claim_outbox(ANN, &[(target, 1)]).await.posts.len(), 1);
        assert_eq!(first().await, Some(now.plus(next * SECOND)), "{target}");
    }
}

/// A person may redeliver a settled after-effect. Its attempts count from the start, and the journal names the person.
pub(super) async fn a_settled_after_effect_can_be_redelivered(t: &TestStore) {
    let run = left_one(t).await;
    let claimed = t.claim_post(ANN).await;
    let request = |why: &str| {
        let note = noted_by(MEG, &run, why);
        let note = hapax_engine::model::JournalEntry {
            what: JournalEvent::Redelivered { reason: why.into() },
            ..note
        };
        Redeliver {
            workspace: claimed.workspace.clone(),
            id: claimed.id.clone(),
            wish: OutboxCommand::Redeliver,
            note: Some(note),
        }
    };
    let redeliver = |why: &str| t.store.redeliver(request(why));
    let under_way = redeliver("too early").await.unwrap();
    assert_eq!(under_way, RedeliverOutcome::UnderWay(claimed.clone()));
    let dead = OutboxState::Dead { at: t.now() };
    let told = finish_of(&claimed, dead, Some(Failure::permanent("gone")));
    assert!(t.store.finish_outbox_message(told).await.unwrap());
    t.pass(SECOND);
    let again = OutboxMessage { state: due(t.now()), attempts: 0, failure: None, ..claimed.clone() };
    assert_eq!(redeliver("they moved").await.unwrap(), RedeliverOutcome::Due(again.clone()));
    assert_eq!(only(t).await, again);
    assert_eq!(redeliver("at once").await.unwrap(), RedeliverOutcome::UnderWay(again));
    let claimed_again = t.claim_post(BOB).await;
    assert_eq!(claimed_again.attempts, 1);
    t.delivered(&claimed_again).await;
    must!(redeliver("they lost it").await.unwrap(), RedeliverOutcome::Due(_));
    let abroad = Redeliver { workspace: WorkspaceId::new("abroad").unwrap(), ..request("abroad") };
    assert_eq!(t.store.redeliver(abroad).await.unwrap(), RedeliverOutcome::NoSuchMessage);
    let nothing = Redeliver { id: hapax_engine::model::EffectKey::from_stored("nothing"), ..request("?") };
    assert_eq!(t.store.redeliver(nothing).await.unwrap(), RedeliverOutcome::NoSuchMessage);
    let noted: Vec<JournalEvent> = t.notes().await.into_iter().map(|note| note.what).collect();
    let reasons = ["they moved", "they lost it"];
    assert_eq!(noted, reasons.map(|reason| JournalEvent::Redelivered { reason: reason.into() }));
}

/// After-effects are listed by workspace and id, filtered, page by page.
pub(super) async fn after_effects_are_listed_in_order(t: &TestStore) {
    let here = t.driven().await;
    let abroad = t.order().workspace("abroad").granted_to(ANN).start().await;
    t.write(&here).await.leaves("a", "mail").leaves("b", "hook").leaves("c", "mail").done().await;
    t.write(&abroad).await.leaves("a", "mail").leaves("d", "hook").done().await;
    let deliveries = t.claim_outbox(ANN, &[("hook", 9)]).await.posts;
    t.delivered(&deliveries[0]).await;
    let all = t.posts().await;
    let of = |run: &RunHead, step: &str| post_of(run, run.generation, step, "x", t.now()).id;
    let expected = [of(&abroad, "a"), of(&abroad, "d"), of(&here, "a"), of(&here, "b"), of(&here, "c")];
    assert_eq!(ids(&all), expected.each_ref().map(|id| id.as_str()));
    let list = |request: ListOutbox| async { t.store.list_outbox(request).await.unwrap() };
    let pick = |places: &[usize]| places.iter().map(|place| all[*place].clone()).collect::<Vec<_>>();
    let any = t.all_posts();
    let in_workspace =
        |name: &str| ListOutbox { workspace: Some(WorkspaceId::new(name).unwrap()), ..any.clone() };
    let with_status = |status| ListOutbox { status: Some(status), ..any.clone() };
    let for_target = |target: &str| ListOutbox { target: Some(name(target)), ..any.clone() };
    assert_eq!(list(in_workspace("default")).await, pick(&[2, 3, 4]));
    assert_eq!(list(in_workspace("nowhere")).await, []);
    assert_eq!(list(for_target("hook")).await, pick(&[1, 3]));
    assert_eq!(list(for_target("nobody")).await, []);
    assert_eq!(list(with_status(OutboxStatus::Due)).await, pick(&[0, 2, 4]));
    assert_eq!(list(with_status(OutboxStatus::Delivered)).await, pick(&[3]));
    assert_eq!(list(with_status(OutboxStatus::Claimed)).await, pick(&[1]));
    assert_eq!(list(with_status(OutboxStatus::Dead)).await, []);
    let narrow = ListOutbox { target: Some(name("mail")), ..in_workspace("abroad") };
    assert_eq!(list(ListOutbox { status: Some(OutboxStatus::Due), ..narrow.clone() }).await, pick(&[0]));
    assert_eq!(list(ListOutbox { status: Some(OutboxStatus::Claimed), ..narrow }).await, []);
    for request in [any.clone(), with_status(OutboxStatus::Due), in_workspace("default")] {
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let page = list(ListOutbox { after: after.clone(), limit: 2, ..request.clone() }).await;
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 2);
            after = Some((last.workspace.clone(), last.id.clone()));
            read.extend(page);
        }
        assert_eq!(read, list(request).await);
    }
    let past = Some((here.facts.workspace.clone(), of(&here, "a")));
    assert_eq!(
        list(ListOutbox { after: past, ..in_workspace("abroad") }).await,
        [],
        "it is past all of these"
    );
    assert_eq!(list(ListOutbox { limit: 0, ..any }).await.len(), 1, "a page is not empty");
}

/// A closed run stays until its after-effects are settled, then they are deleted together.
pub(super) async fn a_run_stays_while_its_after_effects_are_under_way(t: &TestStore) {
    let run = t.driven().await;
    t.write(&run).await.leaves("a", "mail").leaves("b", "hook").completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 0, "both are due");
    let mail = t.claim_outbox(ANN, &[("mail", 1)]).await.posts.remove(0);
    assert_eq!(t.purge().await.runs, 0, "one is under way");
    t.delivered(&mail).await;
    assert_eq!(t.purge().await.runs, 0, "one is due");
    let hook = t.claim_outbox(ANN, &[("hook", 1)]).await.posts.remove(0);
    assert_eq!(t.purge().await.runs, 0, "the last one is under way");
    assert!(t.finish(&hook, OutboxState::Dead { at: t.now() }).await);
    let other = left_one(t).await;
    assert_eq!(t.purge().await.runs, 1);
    assert!(t.find(&run).await.is_none());
    assert_eq!(only(t).await.run, other.id(), "those of other runs stay");
    assert_eq!(t.redeliver(&mail).await, RedeliverOutcome::NoSuchMessage);
}

/// A redelivery also keeps its run.
pub(super) async fn a_redelivery_keeps_its_run(t: &TestStore) {
    let run = left_one(t).await;
    t.write(&run).await.completes("1").done().await;
    let post = t.claim_post(ANN).await;
    t.delivered(&post).await;
    must!(t.redeliver(&post).await, RedeliverOutcome::Due(_));
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 0);
    t.delivered(&t.claim_post(ANN).await).await;
    assert_eq!(t.purge().await.runs, 1);
}

/// A claim and a page each have a maximum size, whatever the caller asks for.
pub(super) async fn claims_and_pages_are_cut_to_their_limits(t: &TestStore) {
    let run = t.driven().await;
    let mut write = t.write(&run).await;
    for n in 0..=MAX_CLAIM {
        write = write.leaves(&format!("notify-{n}"), "mail");
    }
    write.done().await;
    let page = t.store.list_outbox(ListOutbox { limit: usize::MAX, ..t.all_posts() }).await.unwrap();
    assert_eq!(page.len(), MAX_PAGE);
    let claimed = t.claim_outbox(ANN, &[("mail", usize::MAX)]).await;
    assert_eq!((claimed.posts.len(), claimed.next_due_at), (MAX_CLAIM, Some(t.now())));
    assert_eq!(t.claim_outbox(ANN, &[("mail", usize::MAX)]).await.posts.len(), 1);
}
