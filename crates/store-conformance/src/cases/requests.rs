//! Requests under idempotency keys: one is processed, and the others wait, get its answer or are refused.

use std::time::Duration;

use hapax_engine::limits::{ABANDONED_REQUEST_FOR, MAX_KEY_USAGE_BATCH, MAX_STORED_ANSWER_BYTES};
use hapax_engine::model::{
    BeginOutcome, LeafDigests, RequestEnd, RequestRecord, RequestState, StoredAnswer, Timestamp,
};
use hapax_engine::store::{KeyRef, KeyUsageDelta, ReleaseOutcome, StoreError};

use crate::fixture::*;
use crate::must;

const MOMENT: Duration = Duration::from_millis(1);

/// S2.13: while the first request is processed, an identical one waits.
pub(super) async fn the_first_is_worked_on_and_the_second_waits(t: &TestStore) {
    let since = t.now();
    let first = t.ask("k").begin().await;
    t.pass(SECOND);
    let waits = BeginOutcome::InFlight { since, until: since.plus(HOLD) };
    assert_eq!(first.again().send().await, waits);
    assert_eq!(first.again().send().await, waits, "to be told so changes nothing");
    assert_eq!(first.record().await.id, first.id());
}

/// The record of a request key can be read, in flight and answered.
pub(super) async fn a_request_is_kept_as_it_came(t: &TestStore) {
    let ask = t.ask("k").amount(7).begin().await;
    let first_seen_at = t.now();
    let sent = ask.request();
    let mut record = RequestRecord {
        scope: sent.scope,
        key: sent.key,
        id: sent.id,
        fingerprint: sent.fingerprint,
        summary: sent.summary,
        first_seen_at,
        state: RequestState::InFlight { token: sent.token, until: first_seen_at.plus(HOLD) },
    };
    assert_ne!(record.summary.outline, LeafDigests::default());
    assert_eq!(ask.record().await, record);
    t.pass(SECOND);
    let ask = ask.answered(answer(b"{}")).await;
    record.state = RequestState::Answered {
        answer: answer(b"{}"),
        at: t.now(),
        expires_at: t.now().plus(KEEP),
        free_at: t.now().plus(KEEP + GRACE),
    };
    assert_eq!(ask.record().await, record);
    t.pass(KEEP + GRACE);
    assert_eq!(ask.record().await, record, "also when the key is free again");
    assert_eq!(t.ask("other").find().await, None);
}

/// A repeated begin finds its own hold and extends it.
pub(super) async fn a_begin_sent_again_prolongs_its_own_hold(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    let since = t.now();
    t.pass(HOLD - MOMENT);
    let ask = ask.begin().await;
    t.pass(HOLD - MOMENT);
    let until = since.plus(HOLD - MOMENT).plus(HOLD);
    assert_eq!(ask.again().send().await, BeginOutcome::InFlight { since, until });
    t.pass(HOLD);
    let ask = ask.begin().await;
    assert_eq!(ask.again().send().await, BeginOutcome::InFlight { since, until: t.now().plus(HOLD) });
    let ask = ask.answered(answer(b"{}")).await;
    replayed(ask.send().await);
}

/// A caller that takes over an abandoned request continues the same operation, and the first caller's end is refused.
pub(super) async fn a_takeover_keeps_the_operation(t: &TestStore) {
    let first = t.ask("k").begin().await;
    let since = t.now();
    t.pass(HOLD - MOMENT);
    must!(first.again().send().await, BeginOutcome::InFlight { .. });
    t.pass(MOMENT);
    let second = first.again();
    assert_ne!(second.id(), first.id());
    assert_eq!(second.send().await, BeginOutcome::Acquired { id: first.id(), is_taken_over: true });
    must!(first.again().send().await, BeginOutcome::InFlight { since: first_seen, .. } if first_seen == since);
    must!(first.send().await, BeginOutcome::InFlight { .. });
    assert!(!first.finish(kept(answer(b"late"))).await, "it is not the first one's any more");
    assert!(!first.finish(RequestEnd::Released).await);
    let second = second.answered(answer(b"{}")).await;
    let record = replayed(second.again().send().await);
    assert_eq!((record.id, record.first_seen_at), (first.id(), since));
    must!(record.state, RequestState::Answered { answer: kept, .. } if kept == answer(b"{}"));
}

/// The holder can still answer after its hold expired, as long as no other caller has taken over.
pub(super) async fn a_hold_that_ended_and_that_nobody_took_still_answers(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    t.pass(10 * HOLD);
    let ask = ask.answered(answer(b"{}")).await;
    replayed(ask.again().send().await);
}

/// S2.12, S2.32: the same key with a different request is refused: in flight, after the hold, and once answered.
pub(super) async fn another_request_is_a_conflict_in_flight_and_answered(t: &TestStore) {
    let first = t.ask("k").begin().await;
    let other = first.again().amount(2);
    assert_eq!(other.send().await, BeginOutcome::Conflict(first.record().await));
    t.pass(HOLD);
    assert_eq!(other.send().await, BeginOutcome::Conflict(first.record().await));
    let first = first.answered(answer(b"{}")).await;
    let record = first.record().await;
    assert_eq!(other.send().await, BeginOutcome::Conflict(record.clone()));
    assert_eq!(first.record().await, record, "a conflict changes nothing");
    let outline = other.request().summary.outline;
    assert_eq!(record.summary.outline.differences(&outline), ["/amount"]);
}

/// S2.31: an answer is replayed byte for byte, whatever its parts.
pub(super) async fn an_answer_is_given_again_byte_for_byte(t: &TestStore) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..MAX_STORED_ANSWER_BYTES).map(|n| (n * 31 % 251) as u8).collect();
    let headers = |headers: &[(&str, &str)]| -> Vec<(String, String)> {
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let location = [("location", "/v1/payments/1"), ("set-cookie", "a"), ("set-cookie", "b"), ("x", "")];
    let odd = [("x-quoted", "\"\\ \u{7f} ünïcode 漢\t'")];
    let answers = [
        StoredAnswer { status: 201, headers: headers(&location), body: Some(br#"{"a": 1.0 }"#[..].into()) },
        StoredAnswer { status: 200, headers: headers(&odd), body: Some(every_byte.into()) },
        StoredAnswer { status: 599, headers: vec![], body: Some(large.into()) },
        StoredAnswer { status: 204, headers: vec![], body: Some([].into()) },
        StoredAnswer { status: 100, headers: vec![], body: None },
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let ask = t.ask(&format!("k{n}")).begin().await.answered(answer.clone()).await;
        let record = replayed(ask.again().send().await);
        assert_eq!(record, ask.record().await);
        let given = must!(record.state, RequestState::Answered { answer, .. } => answer);
        assert!(given == answer, "{given:?} is not {answer:?}");
    }
}

/// S2.24, S2.29: an answer is replayed until it expires. The key is then refused for the grace period, and free
/// afterwards.
pub(super) async fn an_answer_expires_and_then_its_key_is_free(t: &TestStore) {
    let ask = t.answered("k").await;
    let expired = BeginOutcome::Expired { at: t.now().plus(KEEP) };
    t.pass(KEEP - MOMENT);
    replayed(ask.again().send().await);
    t.pass(MOMENT);
    assert_eq!(ask.again().send().await, expired);
    assert_eq!(ask.again().amount(2).send().await, expired, "whatever the request is");
    t.pass(GRACE - MOMENT);
    assert_eq!(ask.again().send().await, expired);
    t.pass(MOMENT);
    let next = ask.again().amount(2).begin().await;
    let record = next.record().await;
    assert_eq!((record.id, record.first_seen_at), (next.id(), t.now()));
    assert_eq!(record.summary, next.request().summary);
    let next = next.answered(answer(b"next")).await;
    let record = replayed(next.again().send().await);
    must!(record.state, RequestState::Answered { answer: given, .. } if given == answer(b"next"));
}

/// Without a grace period, a key is free as soon as its answer expires.
pub(super) async fn without_grace_a_key_is_free_at_once(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    let end = RequestEnd::Answered { answer: answer(b"{}"), keep_for: SECOND, grace: Duration::ZERO };
    assert!(ask.finish(end).await);
    t.pass(SECOND);
    ask.again().begin().await;
}

/// The end of time is a valid end of an answer or hold.
pub(super) async fn spans_beyond_all_time_are_kept(t: &TestStore) {
    let ever = Duration::from_millis(i64::MAX as u64);
    let end_of_time = Timestamp::from_millis(i64::MAX);
    let ask = t.ask("k").hold_for(ever).begin().await;
    must!(ask.again().send().await, BeginOutcome::InFlight { until, .. } if until == end_of_time);
    assert!(ask.finish(RequestEnd::Answered { answer: answer(b"{}"), keep_for: ever, grace: ever }).await);
    let record = replayed(ask.again().send().await);
    must!(record.state, RequestState::Answered { expires_at, free_at, .. }
        if expires_at == end_of_time && free_at == end_of_time);
}

/// A request that ends without an answer to keep frees its key.
pub(super) async fn a_request_that_began_nothing_leaves_its_key_free(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    t.count(&ask.place(), uses(1, 1)).await;
    assert!(ask.finish(RequestEnd::Released).await);
    assert_eq!(ask.find().await, None);
    assert_eq!(t.uses(&ask.place()).await, uses(0, 0));
    assert!(!ask.finish(RequestEnd::Released).await, "a second time it changes nothing");
    ask.again().amount(2).begin().await;
}

/// A repeated end and an end by another caller change nothing.
pub(super) async fn only_the_holder_says_how_it_ended_and_only_once(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    assert!(!ask.again().finish(kept(answer(b"stranger"))).await);
    assert!(!ask.again().finish(RequestEnd::Released).await);
    assert!(!t.ask("never").finish(kept(answer(b"{}"))).await);
    let ask = ask.answered(answer(b"first")).await;
    let record = ask.record().await;
    t.pass(SECOND);
    assert!(!ask.finish(kept(answer(b"second"))).await);
    assert!(!ask.finish(RequestEnd::Released).await);
    assert_eq!(ask.record().await, record);
}

/// S2.14, invariant 14: the same key of another caller or workspace is a different key.
pub(super) async fn the_same_key_of_another_caller_is_another_key(t: &TestStore) {
    let shop = t.answered("k").await;
    let bank = t.ask("k").by("bank").amount(2).begin().await;
    let abroad = t.ask("k").workspace("abroad").amount(3).begin().await;
    replayed(shop.again().send().await);
    must!(bank.again().send().await, BeginOutcome::InFlight { .. });
    must!(abroad.again().send().await, BeginOutcome::InFlight { .. });
    assert_eq!(t.release(shop.place()).await, ReleaseOutcome::Released);
    assert_eq!((bank.record().await.id, abroad.record().await.id), (bank.id(), abroad.id()));
}

/// Keys and callers are compared byte by byte.
pub(super) async fn request_keys_are_compared_exactly(t: &TestStore) {
    for key in ["k", "K", "k ", " k", "k%", "k_", "k:1", "k\\", "k'"] {
        t.ask(key).begin().await;
        t.ask(key).by("Shop").begin().await;
    }
}

/// Request keys and run keys are separate.
pub(super) async fn a_request_key_is_no_run_key(t: &TestStore) {
    let run = t.order().key("k").start().await;
    let ask = t.ask("k").begin().await.answered(answer(b"{}")).await;
    t.count(&ask.place(), uses(1, 0)).await;
    assert_eq!(t.uses(&run_key("k")).await, uses(0, 0));
    assert_eq!(t.release(ask.place()).await, ReleaseOutcome::Released);
    assert_eq!(t.key("k").await.unwrap().run(), Some(run.id()));
}

/// S2.30: a person releases the key of an answered request, and the journal records it.
pub(super) async fn a_released_key_may_be_used_for_something_else(t: &TestStore) {
    let ask = t.answered("k").await;
    t.count(&ask.place(), uses(2, 1)).await;
    assert_eq!(t.release(ask.place()).await, ReleaseOutcome::Released);
    assert_eq!(t.notes().await, [t.noted_release(&ask.place())]);
    assert_eq!(ask.find().await, None);
    let next = ask.again().amount(2).begin().await;
    assert_eq!(t.uses(&next.place()).await, uses(0, 0));
}

/// An expired answer still blocks its key during the grace period. A person can release the key until then.
pub(super) async fn an_expired_key_can_be_released(t: &TestStore) {
    let ask = t.answered("k").await;
    t.pass(KEEP);
    assert_eq!(t.release(ask.place()).await, ReleaseOutcome::Released);
    ask.again().begin().await;
}

/// A key cannot be released while its request is in progress. It can be once the holder is gone.
pub(super) async fn a_request_in_progress_keeps_its_key(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    t.pass(HOLD - MOMENT);
    assert_eq!(t.release(ask.place()).await, ReleaseOutcome::InUse { run: None });
    assert_eq!(t.notes().await, [], "what was refused is not noted");
    t.pass(MOMENT);
    assert_eq!(t.release(ask.place()).await, ReleaseOutcome::Released);
    assert!(!ask.finish(kept(answer(b"late"))).await);
    assert_eq!(ask.find().await, None);
}

/// A missing key, or a key that is already free, cannot be released.
pub(super) async fn a_free_key_is_not_released(t: &TestStore) {
    let ask = t.answered("k").await;
    t.pass(KEEP + GRACE);
    let nobody = t.ask("k").by("nobody").place();
    let nowhere = t.ask("k").workspace("nowhere").place();
    for place in [ask.place(), t.ask("never").place(), nobody, nowhere, run_key("never")] {
        assert_eq!(t.release(place.clone()).await, ReleaseOutcome::NoSuchKey, "{place:?}");
    }
    assert_eq!(t.notes().await, []);
}

/// The key of an open run cannot be released. The key of a closed run can, and then names the next run.
pub(super) async fn the_key_of_a_run_is_released_once_it_is_over(t: &TestStore) {
    let run = t.order().key("k").granted_to(ANN).start().await;
    assert_eq!(t.release(run_key("k")).await, ReleaseOutcome::InUse { run: Some(run.id()) });
    assert_eq!(t.notes().await, []);
    t.write(&run).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.release(run_key("k")).await, ReleaseOutcome::Released);
    assert_eq!(t.notes().await, [t.noted_release(&run_key("k"))]);
    assert_eq!(t.key("k").await.unwrap().expires_at, Some(t.now()));
    assert_eq!(t.release(run_key("k")).await, ReleaseOutcome::NoSuchKey, "it is free already");
    let next = t.order().key("k").input("2").start().await;
    assert_ne!(next.id(), run.id());
    assert_eq!(t.key("k").await.unwrap().run(), Some(next.id()));
}

/// The key of a purged run can also be released.
pub(super) async fn the_key_of_a_purged_run_is_released(t: &TestStore) {
    let run = t.order().key("k").granted_to(ANN).start().await;
    t.write(&run).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    assert_eq!(t.release(run_key("k")).await, ReleaseOutcome::Released);
    t.order().key("k").input("2").start().await;
}

/// Uses are counted per key.
pub(super) async fn uses_add_up(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    t.order().key("k").start().await;
    assert_eq!(t.uses(&ask.place()).await, uses(0, 0));
    let of = |place: KeyRef, replays, conflicts| KeyUsageDelta { place, uses: uses(replays, conflicts) };
    let counted = vec![
        of(ask.place(), 1, 0),
        of(run_key("k"), 10, 20),
        of(t.ask("never").place(), 1, 1),
        of(ask.place(), 2, 5),
        of(t.ask("k").workspace("nowhere").place(), 1, 1),
    ];
    t.book().add_key_usage(counted).await.unwrap();
    t.count(&run_key("k"), uses(0, 1)).await;
    t.book().add_key_usage(Vec::new()).await.unwrap();
    assert_eq!(t.uses(&ask.place()).await, uses(3, 5));
    assert_eq!(t.uses(&run_key("k")).await, uses(10, 21));
    let ask = ask.answered(answer(b"{}")).await;
    assert_eq!(t.uses(&ask.place()).await, uses(3, 5), "an answer does not change them");
}

/// Uses of a missing key are not counted, and do not count for its next owner.
pub(super) async fn keys_that_are_not_there_are_not_counted(t: &TestStore) {
    let ask = t.ask("k");
    for place in [ask.place(), run_key("k")] {
        t.count(&place, uses(1, 1)).await;
        assert_eq!(t.uses(&place).await, uses(0, 0));
    }
    let ask = ask.begin().await;
    t.order().key("k").start().await;
    for place in [ask.place(), run_key("k")] {
        assert_eq!(t.uses(&place).await, uses(0, 0));
    }
}

/// A takeover continues the count. A key that moves to another operation or run starts a new count.
pub(super) async fn a_reassigned_key_starts_a_new_count(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    t.count(&ask.place(), uses(1, 2)).await;
    t.pass(HOLD);
    let second = ask.again();
    must!(second.send().await, BeginOutcome::Acquired { is_taken_over: true, .. });
    assert_eq!(t.uses(&ask.place()).await, uses(1, 2));
    second.answered(answer(b"{}")).await;
    t.pass(KEEP + GRACE);
    assert_eq!(t.uses(&ask.place()).await, uses(1, 2), "until it is given on");
    ask.again().begin().await;
    assert_eq!(t.uses(&ask.place()).await, uses(0, 0));

    let run = t.order().key("k").keep_key_for(SECOND).granted_to(ANN).start().await;
    t.count(&run_key("k"), uses(3, 4)).await;
    t.write(&run).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.uses(&run_key("k")).await, uses(3, 4));
    t.order().key("k").start().await;
    assert_eq!(t.uses(&run_key("k")).await, uses(0, 0));
}

/// A retried run gets its key back, with its counts.
pub(super) async fn a_retried_run_keeps_the_counts_of_its_key(t: &TestStore) {
    let run = t.order().key("k").release_key_on_failure().granted_to(ANN).start().await;
    t.count(&run_key("k"), uses(3, 4)).await;
    let run = t.write(&run).await.fails_at("charge").fails("no").done().await;
    t.steered(&run, retry()).await;
    assert_eq!(t.key("k").await.unwrap().expires_at, None);
    assert_eq!(t.uses(&run_key("k")).await, uses(3, 4));
}

/// A batch of counts over the limit is refused as a whole.
pub(super) async fn too_many_counts_are_refused(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    let counts = |many| vec![KeyUsageDelta { place: ask.place(), uses: uses(1, 0) }; many];
    must!(t.book().add_key_usage(counts(MAX_KEY_USAGE_BATCH + 1)).await, Err(StoreError::Refused(_)));
    assert_eq!(t.uses(&ask.place()).await, uses(0, 0));
    t.book().add_key_usage(counts(MAX_KEY_USAGE_BATCH)).await.unwrap();
    assert_eq!(t.uses(&ask.place()).await, uses(MAX_KEY_USAGE_BATCH as u64, 0));
}

/// S4.28: only free keys are purged, with their answers and counts.
pub(super) async fn only_free_requests_are_purged(t: &TestStore) {
    let free = t.answered("free").await;
    t.count(&free.place(), uses(1, 1)).await;
    let held = t.ask("held").begin().await;
    t.pass(GRACE);
    let refused = t.answered("refused").await;
    t.pass(KEEP - MOMENT);
    assert_eq!(t.book().purge_requests(100).await.unwrap(), 0);
    t.pass(MOMENT);
    let given = t.answered("given").await;
    assert_eq!(t.book().purge_requests(100).await.unwrap(), 1);
    assert_eq!(t.book().purge_requests(100).await.unwrap(), 0);
    assert_eq!(free.find().await, None);
    assert_eq!(t.uses(&free.place()).await, uses(0, 0));
    for ask in [&held, &refused, &given] {
        assert_eq!(ask.record().await.id, ask.id());
    }
    let next = free.again().begin().await;
    assert_eq!(next.answered(answer(b"next")).await.record().await.first_seen_at, t.now());
}

/// An abandoned request that no caller repeats is purged in the end.
pub(super) async fn an_abandoned_request_is_purged(t: &TestStore) {
    let left = t.ask("left").begin().await;
    t.pass(ABANDONED_REQUEST_FOR);
    let held = t.ask("held").begin().await;
    assert_eq!(t.book().purge_requests(100).await.unwrap(), 0, "its hold ended later than it came");
    t.pass(HOLD);
    assert_eq!(t.book().purge_requests(100).await.unwrap(), 1);
    assert_eq!(left.find().await, None);
    assert_eq!(held.record().await.id, held.id());
    assert_eq!(t.book().find_oldest_request().await.unwrap(), Some(held.record().await.first_seen_at));
}

/// The keys that have been free the longest are purged first, and never more than requested.
pub(super) async fn the_longest_free_are_purged_first(t: &TestStore) {
    for (key, seconds) in [("b", 2), ("c", 3), ("a", 1), ("e", 5), ("d", 4)] {
        let ask = t.ask(key).begin().await;
        let keep_for = seconds * SECOND;
        assert!(ask.finish(RequestEnd::Answered { answer: answer(b""), keep_for, grace: SECOND }).await);
    }
    t.pass(HOUR);
    let mut left = vec!["a", "b", "c", "d", "e"];
    for (limit, purged) in [(2, 2), (0, 1), (100, 2), (100, 0)] {
        assert_eq!(t.book().purge_requests(limit).await.unwrap(), purged);
        left.drain(..purged);
        for key in ["a", "b", "c", "d", "e"] {
            assert_eq!(t.ask(key).find().await.is_some(), left.contains(&key), "{key}");
        }
    }
}

/// The age of the oldest request covers all workspaces. Free keys do not count, purged or not.
pub(super) async fn the_oldest_request_is_known(t: &TestStore) {
    let oldest = || async { t.book().find_oldest_request().await.unwrap() };
    assert_eq!(oldest().await, None);
    let start = t.now();
    t.answered("k").await;
    t.pass(SECOND);
    let second = t.ask("k").workspace("abroad").begin().await;
    t.pass(SECOND);
    t.ask("later").begin().await;
    assert_eq!(oldest().await, Some(start));
    t.pass(KEEP + GRACE);
    assert_eq!(oldest().await, Some(start.plus(SECOND)));
    t.book().purge_requests(100).await.unwrap();
    assert_eq!(oldest().await, Some(start.plus(SECOND)));
    assert!(second.finish(RequestEnd::Released).await);
    assert_eq!(oldest().await, Some(start.plus(2 * SECOND)));
}
