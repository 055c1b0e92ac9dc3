//! Fault 14: a caller may stop waiting at any moment, and no connection is ever left inside a transaction.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hapax_engine::model::{
    JournalEvent, OutboxState, RunCommand, RunHead, Subscribers, Version, WorkspaceId,
};
use hapax_engine::store::{
    ClaimOutbox, ClaimRuns, CommandRun, ListDoubts, ListRuns, OutboxCommand, Purge, Redeliver,
};
use hapax_store_conformance::fixture::{
    ANN, LEASE, TestStore, finish_of, grant, name, note_of, settlement_of, signal_to,
};
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage, until};

/// Polls a future at most `polls` times, then drops it. Was it still pending?
pub(crate) async fn drop_after(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(true);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|_| false)
    })
    .await
}

async fn parked(t: &TestStore) -> RunHead {
    let run = t.driven().await;
    t.write(&run).await.awaits_promise("paid", None).parks().done().await
}

/// Every verb, given up after `polls` polls; answers whether any was still pending.
async fn give_up_each(t: &TestStore, polls: usize) -> bool {
    let store = &t.store;
    let here = WorkspaceId::default();
    let (driven, waiting, pending) = (t.driven().await, parked(t).await, t.pending().await);
    let leaving = t.driven().await;
    let leaving = t.write(&leaving).await.leaves("a", "mail").leaves("b", "mail").done().await;
    let note = note_of(&leaving, JournalEvent::Claimed { attempt: 1 });
    let brings = t.write(&leaving).await.does("charge").notes(note.clone()).leaves("c", "mail").advance();
    let claimed = t.claim_outbox(ANN, &[("mail", 1)]).await.posts.remove(0);
    let finish = finish_of(&claimed, OutboxState::Delivered { at: t.now() }, None);
    let (workspace, id) = (here.clone(), claimed.id.clone());
    let redeliver = Redeliver { workspace, id, wish: OutboxCommand::Redeliver, note: Some(note.clone()) };
    let claim_outbox = ClaimOutbox { owner: ANN, lease_for: LEASE, room: vec![(name("mail"), 1)] };
    let doubts = ListDoubts { workspace: None, after: None, limit: 10 };
    let step = t.write(&driven).await.does("charge").advance();
    let child = t.child_of(&driven, "ship");
    let with_child = t.write(&driven).await.awaits_child("ship", &child).advance();
    let all = ListRuns {
        workspace: None,
        statuses: Vec::new(),
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 10,
    };
    let steer = CommandRun {
        workspace: here.clone(),
        run: pending.id(),
        command: RunCommand::Cancel { reason: "no".into() },
        expected: None,
        note: None,
        announce: Subscribers::default(),
    };
    let purge = Purge { runs_closed_before: Some(t.now()), after: None, limit: 10 };
    let subject = t.order().subject(&format!("s{polls}")).new_run();
    let mut given_up = false;
    given_up |= drop_after(polls, store.start_run(t.order().new_run())).await;
    given_up |= drop_after(polls, store.start_run(subject)).await;
    given_up |= drop_after(polls, store.commit_run(step)).await;
    given_up |= drop_after(polls, store.commit_run(with_child)).await;
    given_up |= drop_after(polls, store.send_signal(signal_to(&waiting, "go", Some("id")))).await;
    given_up |= drop_after(polls, store.settle_promise(settlement_of(&waiting, "paid", "1"))).await;
    given_up |= drop_after(polls, store.command_run(steer)).await;
    given_up |= drop_after(polls, store.claim_runs(ClaimRuns { grant: grant(ANN), limit: 3 })).await;
    given_up |= drop_after(polls, t.renew(ANN, &[&driven])).await;
    given_up |= drop_after(polls, store.purge(purge)).await;
    given_up |= drop_after(polls, store.find_run(&here, driven.id())).await;
    given_up |= drop_after(polls, store.find_log(&here, driven.id())).await;
    given_up |= drop_after(polls, store.list_runs(all)).await;
    given_up |= drop_after(polls, store.list_events(&here, driven.id(), Version::default())).await;
    given_up |= drop_after(polls, store.list_keys(None)).await;
    given_up |= drop_after(polls, store.commit_run(brings)).await;
    given_up |= drop_after(polls, store.append_journal(vec![note])).await;
    given_up |= drop_after(polls, store.claim_outbox(claim_outbox)).await;
    given_up |= drop_after(polls, store.finish_outbox_message(finish)).await;
    given_up |= drop_after(polls, store.redeliver(redeliver)).await;
    given_up |= drop_after(polls, store.list_journal(t.all_notes())).await;
    given_up |= drop_after(polls, store.list_doubts(doubts)).await;
    given_up |= drop_after(polls, store.list_outbox(t.all_posts())).await;
    given_up
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_dropped_at_any_await_leaves_no_transaction() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let admin = database.connect().await.unwrap();
    let in_transaction = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";
    let mut was_given_up = 0;
    for polls in 1.. {
        let given_up = give_up_each(&t, polls).await;
        // Work of a lane or a task may still be in progress; it ends by itself.
        until("the end of all transactions", Duration::from_secs(5), async || {
            let left: i64 = admin.query_one(in_transaction, &[]).await.unwrap().get(0);
            left == 0
        })
        .await;
        if !given_up {
            break;
        }
        was_given_up += 1;
    }
    assert!(was_given_up > 0, "some future was dropped before its end");
    let report = t.fsck().await;
    assert!(report.is_clean(), "{report}");
    t.driven().await;
    t.store.close().await.unwrap();
}
