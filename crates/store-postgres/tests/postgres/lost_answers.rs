//! Fault 13: the response to a commit is lost. The caller gets an unknown outcome, and a retry
//! recognizes its own write.

use std::time::Duration;

use hapax_engine::model::{EventKind, JournalEvent, OutboxState, RunCommand, Subscribers};
use hapax_engine::store::{
    CommandRun, CommitOutcome, RunCommandOutcome, SettleOutcome, SignalOutcome, StartOutcome, StoreError,
    StoreResult,
};
use hapax_store_conformance::fixture::{ANN, TestStore, finish_of, note_of, settlement_of, signal_to};
use hapax_store_conformance::must;
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage};
use crate::proxy::{Proxy, ProxyMode};

/// Sends the request with its response cut off, and again.
async fn send_twice<T: std::fmt::Debug>(proxy: &Proxy, mut send: impl AsyncFnMut() -> StoreResult<T>) -> T {
    proxy.set(ProxyMode::CutBeforeAnswer);
    let lost = send().await;
    proxy.set(ProxyMode::Pass);
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    loop {
        // The pause after a failed connection.
        match send().await {
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            answer => return answer.unwrap(),
        }
    }
}

async fn stage_behind(proxy: &Proxy) -> TestStore {
    let t = stage(proxy.url(), PostgresOptions::default().committers(1)).await;
    // All connections and statements are prepared, so that the cut response is the one to the
    // write.
    for _ in 0..2 {
        let run = t.order().key(&format!("warm-{}", t.fresh_id())).granted_to(ANN).start().await;
        let run = t.write(&run).await.does("charge").awaits_promise("paid", None).parks().done().await;
        must!(t.signal_as(&run, "go", "warm").await, SignalOutcome::Stored { .. });
        must!(t.settle(&run, "paid", "1").await, SettleOutcome::Settled { .. });
        t.steered(&run, RunCommand::Cancel { reason: "warm".into() }).await;
        t.view(&run).await;
        let run = t.driven().await;
        let note = note_of(&run, JournalEvent::Claimed { attempt: 1 });
        t.write(&run).await.notes(note).leaves("tell", "warm").done().await;
        let claimed = t.claim_outbox(ANN, &[("warm", 1)]).await.posts.remove(0);
        t.delivered(&claimed).await;
    }
    t
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_answer_was_lost_is_found_again() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let t = stage_behind(&proxy).await;
    let new = t.order().key("k").granted_to(ANN).new_run();
    let outcome = send_twice(&proxy, async || t.store.start_run(new.clone()).await).await;
    let run = must!(outcome, StartOutcome::Created(run) => run);
    assert_eq!(run.id(), new.facts.id);
    assert_eq!(t.history(&run).await, [EventKind::Started]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_recognised() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let t = stage_behind(&proxy).await;
    let run = t.driven().await;
    let advance = t.write(&run).await.does("charge").completes("1").advance();
    let outcome = send_twice(&proxy, async || t.store.commit_run(advance.clone()).await).await;
    must!(outcome, CommitOutcome::Committed { .. });
    assert_eq!(t.history(&run).await, [EventKind::Started, EventKind::Completed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_brings_nothing_twice() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let t = stage_behind(&proxy).await;
    let run = t.driven().await;
    let note = note_of(&run, JournalEvent::Claimed { attempt: 1 });
    let advance = t.write(&run).await.notes(note).leaves("tell", "mail").advance();
    let outcome = send_until_known(&proxy, async || t.store.commit_run(advance.clone()).await).await;
    must!(outcome, CommitOutcome::Committed { .. });
    assert_eq!(t.notes().await.iter().filter(|note| note.run == run.id()).count(), 1);
    let claimed = t.claim_post(ANN).await;
    let finish = finish_of(&claimed, OutboxState::Delivered { at: t.now() }, None);
    send_until_known(&proxy, async || t.store.finish_outbox_message(finish.clone()).await).await;
    let posts = t.posts().await;
    let told = posts.iter().find(|post| post.id == claimed.id).map(|post| (post.state, post.attempts));
    assert_eq!(told, Some((OutboxState::Delivered { at: t.now() }, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn considered_operations_whose_answers_were_lost_are_recognised() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let t = stage_behind(&proxy).await;
    let run = t.driven().await;
    let run = t.write(&run).await.awaits_promise("paid", None).parks().done().await;
    let signal = signal_to(&run, "go", Some("s1"));
    let outcome = send_until_known(&proxy, async || t.store.send_signal(signal.clone()).await).await;
    must!(outcome, SignalOutcome::Duplicate | SignalOutcome::Stored { .. });
    assert_eq!(t.log(&run).await.signals.len(), 1);
    let settlement = settlement_of(&run, "paid", "1");
    let outcome = send_until_known(&proxy, async || t.store.settle_promise(settlement.clone()).await).await;
    must!(outcome, SettleOutcome::AlreadySettled { same: true, .. } | SettleOutcome::Settled { .. });
    let steer = CommandRun {
        workspace: run.facts.workspace.clone(),
        run: run.id(),
        command: RunCommand::Cancel { reason: "no".into() },
        expected: None,
        note: None,
        announce: Subscribers::default(),
    };
    let outcome = send_until_known(&proxy, async || t.store.command_run(steer.clone()).await).await;
    must!(outcome, RunCommandOutcome::Refused(..) | RunCommandOutcome::Accepted(_));
    let asked = t.history(&run).await.iter().filter(|kind| **kind == EventKind::CancelRequested).count();
    assert_eq!(asked, 1);
}

/// These read before they write, so the cut response may be the one to a read: then nothing was
/// written, and the error says so.
async fn send_until_known<T: std::fmt::Debug>(
    proxy: &Proxy,
    mut send: impl AsyncFnMut() -> StoreResult<T>,
) -> T {
    proxy.set(ProxyMode::CutBeforeAnswer);
    let lost = send().await;
    proxy.set(ProxyMode::Pass);
    assert!(lost.as_ref().is_err_and(StoreError::is_retryable), "{lost:?}");
    loop {
        match send().await {
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            answer => return answer.unwrap(),
        }
    }
}
