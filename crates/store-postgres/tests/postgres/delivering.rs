//! The journal and the outbox under many writers, deliverers and purges at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{EffectKey, JournalEvent, OutboxState, RunCommit, RunId};
use hapax_engine::store::{CommitOutcome, Purge, RedeliverOutcome};
use hapax_store_conformance::fixture::{ANN, BOB, SECOND, TestStore, note_of};
use hapax_store_conformance::must;
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage, until};

const RUNS: usize = 40;

/// Counts INSERT statements, also empty ones.
const COUNT: &str = "CREATE SEQUENCE public.inserts;
    CREATE FUNCTION public.count_insert() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM nextval('public.inserts'); RETURN NULL; END $$;
    CREATE TRIGGER counted AFTER INSERT ON hapax.notes FOR EACH STATEMENT EXECUTE FUNCTION public.count_insert();
    CREATE TRIGGER counted AFTER INSERT ON hapax.posts FOR EACH STATEMENT EXECUTE FUNCTION public.count_insert()";

/// Sends writes at the same time; returns the runs they took effect on.
async fn send(t: &Arc<TestStore>, writes: &[RunCommit]) -> BTreeSet<RunId> {
    let sending: Vec<_> = writes
        .iter()
        .map(|write| {
            let (t, write) = (t.clone(), write.clone());
            tokio::spawn(async move { (write.run(), t.store.commit_run(write).await.unwrap()) })
        })
        .collect();
    let mut written = BTreeSet::new();
    for sent in sending {
        let (run, outcome) = sent.await.unwrap();
        if let CommitOutcome::Committed { .. } = outcome {
            written.insert(run);
        }
    }
    written
}

async fn kept(t: &TestStore) -> (Vec<RunId>, Vec<RunId>) {
    let mut notes: Vec<RunId> = t.notes().await.iter().map(|note| note.run).collect();
    let mut posts: Vec<RunId> = t.posts().await.iter().map(|post| post.run).collect();
    notes.sort_unstable();
    posts.sort_unstable();
    (notes, posts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_what_those_of_its_writes_bring_that_take_effect() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default().committers(1)).await);
    let (mut writes, mut sound) = (Vec::new(), BTreeSet::new());
    for n in 0..RUNS {
        let run = t.driven().await;
        let note = note_of(&run, JournalEvent::Claimed { attempt: 1 });
        writes.push(t.write(&run).await.does("charge").notes(note).leaves("tell", "mail").advance());
        if n % 2 == 0 {
            sound.insert(run.id());
        } else {
            t.write(&run).await.does("other").done().await;
        }
    }
    let admin = database.connect().await.unwrap();
    admin.batch_execute(COUNT).await.unwrap();
    assert_eq!(send(&t, &writes).await, sound);
    let expected: Vec<RunId> = sound.iter().copied().collect();
    assert_eq!(kept(&t).await, (expected.clone(), expected.clone()));
    let commits = "SELECT count(DISTINCT xmin::text) FROM hapax.notes";
    let commits: i64 = admin.query_one(commits, &[]).await.unwrap().get(0);
    let inserts = async || -> i64 {
        let last = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.inserts";
        admin.query_one(last, &[]).await.unwrap().get(0)
    };
    let first = inserts().await;
    assert!(first < RUNS as i64, "{first} statements for {RUNS} writes that bring two things each");
    assert!(first >= 2 * commits, "each batch sends one of each: {first} for {commits}");
    // A retry is recognized, and adds nothing.
    assert_eq!(send(&t, &writes).await, sound);
    assert_eq!(kept(&t).await, (expected.clone(), expected));
    // A batch without rows sends no statement for them.
    let before = inserts().await;
    let run = t.driven().await;
    t.write(&run).await.does("charge").done().await;
    assert_eq!(inserts().await, before);
    t.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_messages_are_skipped_and_retried_soon() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let run = t.driven().await;
    let write = t.write(&run).await.leaves("a", "mail").leaves("b", "mail").leaves("c", "mail");
    write.done().await;
    let mut admin = database.connect().await.unwrap();
    let other = admin.transaction().await.unwrap();
    let lock = "SELECT id FROM hapax.posts ORDER BY id LIMIT 1 FOR UPDATE";
    let locked: String = other.query_one(lock, &[]).await.unwrap().get(0);
    let claimed = t.claim_outbox(ANN, &[("mail", 1)]).await;
    assert_eq!((claimed.posts.len(), claimed.next_due_at), (1, Some(t.now())), "one more is due");
    let claimed = t.claim_outbox(ANN, &[("mail", 9), ("sms", 9)]).await;
    assert_eq!(claimed.posts.len(), 1);
    assert!(claimed.next_due_at.is_some_and(|at| at > t.now()), "{claimed:?}");
    other.rollback().await.unwrap();
    let claimed = t.claim_post(BOB).await;
    assert_eq!(claimed.id, EffectKey::from_stored(&locked));
    t.store.close().await.unwrap();
}

/// A purge has read the run before the redelivery is requested.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_due_for_redelivery_survives_a_concurrent_purge() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default()).await);
    for _ in 0..50 {
        let run = t.driven().await;
        t.write(&run).await.completes("1").done().await;
    }
    let run = t.driven().await;
    let run = t.write(&run).await.leaves("tell", "mail").completes("1").done().await;
    let post = t.claim_post(ANN).await;
    t.delivered(&post).await;
    t.pass(SECOND);
    let admin = database.connect().await.unwrap();
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN OLD; END $$;
        CREATE TRIGGER slow BEFORE DELETE ON hapax.runs FOR EACH ROW EXECUTE FUNCTION slow()";
    admin.batch_execute(slow).await.unwrap();
    let request = Purge { runs_closed_before: Some(t.now()), after: None, limit: 1_000 };
    let purging = tokio::spawn({
        let t = t.clone();
        async move { t.store.purge(request).await.unwrap() }
    });
    let deleting = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep')";
    until("the purge", Duration::from_secs(30), async || {
        admin.query_one(deleting, &[]).await.unwrap().get(0)
    })
    .await;
    must!(t.redeliver(&post).await, RedeliverOutcome::Due(_));
    assert_eq!(purging.await.unwrap().runs, 50);
    t.view(&run).await;
    let again = t.claim_post(BOB).await;
    assert_eq!((again.id, again.attempts), (post.id, 1));
    t.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_named_twice_has_the_room_of_both() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let run = t.driven().await;
    let write = t.write(&run).await.leaves("a", "mail").leaves("b", "mail").leaves("c", "mail");
    write.done().await;
    let claimed = t.claim_outbox(ANN, &[("mail", 1), ("mail", 1)]).await;
    assert_eq!((claimed.posts.len(), claimed.next_due_at), (2, Some(t.now())));
    let states: Vec<OutboxState> = t.posts().await.iter().map(|post| post.state).collect();
    let is_claimed = |state: &&OutboxState| matches!(state, OutboxState::Claimed { .. });
    assert_eq!(states.iter().filter(is_claimed).count(), 2);
    t.store.close().await.unwrap();
}
