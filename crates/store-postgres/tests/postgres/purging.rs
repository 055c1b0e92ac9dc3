//! A slow purge continues, and holds few locks at a time.

use std::time::Duration;

use hapax_engine::store::Purge;
use hapax_store_conformance::fixture::SECOND;
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage};

const RUNS: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_is_slow_goes_on_where_it_stopped() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default().deadline(Duration::from_secs(3))).await;
    for _ in 0..RUNS {
        let run = t.driven().await;
        t.write(&run).await.completes("1").done().await;
    }
    t.pass(SECOND);
    let admin = database.connect().await.unwrap();
    // Fifty rows take more than half of the deadline, all of them more than the whole.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_sleep(0.032); RETURN OLD; END $$;
        CREATE TRIGGER slow BEFORE DELETE ON hapax.runs FOR EACH ROW EXECUTE FUNCTION slow()";
    admin.batch_execute(slow).await.unwrap();
    let (mut after, mut passes) = (None, Vec::new());
    loop {
        let request = Purge { runs_closed_before: Some(t.now()), after, limit: 1_000 };
        let purged = t.store.purge(request).await.unwrap();
        passes.push(purged.runs);
        after = purged.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(passes, [50, 50, 20]);
    let left: i64 = admin.query_one("SELECT count(*) FROM hapax.runs", &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
    t.store.close().await.unwrap();
}
