//! A node never holds more connections than its options say, whatever it does and whatever befalls them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hapax_engine::model::{CatalogKind, Name, RunId, WorkspaceId};
use hapax_engine::store::{ListDoubts, Purge};
use hapax_store_postgres::PostgresOptions;
use tokio::task::JoinSet;

use crate::fixture::{database, stage};

/// The docs said at most 17; in fact there were 18 to 20.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_holds_no_more_connections_than_its_options_say() {
    let database = database().await;
    let options = PostgresOptions::default().application_name("the busy node");
    let most = options.max_connections();
    let t = Arc::new(stage(&database.url(), options).await);
    let admin = database.connect().await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut busy = JoinSet::new();
    for number in 0..64_u64 {
        let (t, is_over) = (t.clone(), is_over.clone());
        busy.spawn(async move {
            // Failures of cut connections are part of the load.
            while !is_over.load(Ordering::Relaxed) {
                let store = &t.store;
                match number % 6 {
                    0 => {
                        drop(store.list_doubts(ListDoubts { workspace: None, after: None, limit: 10 }).await)
                    }
                    1 => {
                        let id = Name::new("setting", "none").unwrap();
                        drop(store.catalog().unwrap().find_item(CatalogKind::Setting, &id).await);
                    }
                    2 => drop(store.append_journal(Vec::new()).await),
                    3 => drop(store.find_run(&WorkspaceId::default(), RunId::NONE).await),
                    4 => drop(store.request_key_store().unwrap().purge_requests(10).await),
                    _ => {
                        let nothing = Purge { runs_closed_before: None, after: None, limit: 10 };
                        drop(store.purge(nothing).await);
                    }
                }
            }
        });
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'the busy node'";
    let cut =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'the busy node'";
    let mut highest = 0;
    for round in 0..200 {
        let held: i64 = admin.query_one(count, &[]).await.unwrap().get(0);
        highest = highest.max(usize::try_from(held).unwrap());
        assert!(highest <= most, "{highest} connections, and {most} are said to be the most");
        if round % 20 == 19 {
            admin.execute(cut, &[]).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    while busy.join_next().await.is_some() {}
    assert!(highest >= 4, "it was busy: {highest}");
}
