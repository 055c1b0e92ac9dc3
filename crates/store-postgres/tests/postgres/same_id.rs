//! Two workspaces with the same run id: that takes two equal random ids at the same moment, and
//! each still keeps its own.

use hapax_engine::store::StartOutcome;
use hapax_store_conformance::must;
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage};

#[tokio::test]
async fn each_workspace_finds_its_own_run() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    for workspace in ["one", "other"] {
        t.order().workspace(workspace).start().await;
    }
    let id = t.fresh_id();
    t.order().workspace("one").id(id).start().await;
    // A conflict that a start would detect, unless it happens at the very same moment.
    let admin = database.connect().await.unwrap();
    for table in ["runs", "run_facts"] {
        let copy = format!(
            "CREATE TEMP TABLE copy AS SELECT * FROM hapax.{table} WHERE id = '{id}';
            UPDATE copy SET workspace = (SELECT id FROM hapax.workspaces WHERE name = 'other');
            INSERT INTO hapax.{table} SELECT * FROM copy; DROP TABLE copy",
            id = uuid::Uuid::from_u128(id.as_u128())
        );
        admin.batch_execute(&copy).await.unwrap();
    }
    for workspace in ["one", "other"] {
        // Without a subject by the hot lane, with one by the read-modify-write lane.
        for subject in [None, Some("customer")] {
            let order = t.order().workspace(workspace).id(id);
            let order = match subject {
                Some(subject) => order.subject(subject),
                None => order,
            };
            let again = t.store.start_run(order.new_run()).await.unwrap();
            let own = must!(again, StartOutcome::Created(run) => run);
            assert_eq!((own.id(), own.facts.workspace.as_str()), (id, workspace));
        }
    }
}
