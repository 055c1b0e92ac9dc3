//! An operation that the server rejects fails alone, in any batch.

use std::sync::Arc;

use hapax_engine::model::{CommitBuilder, RunStatus};
use hapax_engine::store::{CommitOutcome, StoreError};
use hapax_store_conformance::fixture::completed;
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{complete, database, stage};

/// Lesson 14: NUL is rejected at the edge; if one comes through, it affects no other write.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_poisoned_write_of_a_batch_fails() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default().committers(1)).await);
    let mut writes = Vec::new();
    for n in 0..40 {
        let run = t.driven().await;
        let mut write = CommitBuilder::new(&run, t.now());
        complete(&mut write, if n == 17 { "nul\0here" } else { "charge" }, t.now());
        write.close(completed("1")).unwrap();
        writes.push((n, run, write.finish()));
    }
    let writing: Vec<_> = writes
        .into_iter()
        .map(|(n, run, advance)| {
            let t = t.clone();
            tokio::spawn(async move { (n, run, t.store.commit_run(advance).await) })
        })
        .collect();
    for written in writing {
        let (n, run, outcome) = written.await.unwrap();
        let status = t.head(&run).await.status();
        match n {
            17 => {
                assert!(matches!(outcome, Err(StoreError::Refused(_))), "{outcome:?}");
                assert_eq!(status, RunStatus::Running);
            }
            _ => {
                assert!(matches!(outcome, Ok(CommitOutcome::Committed { .. })), "{outcome:?}");
                assert_eq!(status, RunStatus::Completed);
            }
        }
    }
    t.store.close().await.unwrap();
}
