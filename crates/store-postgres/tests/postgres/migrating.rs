//! Fault 47: one of many nodes creates the tables, completely or not at all.

use hapax_engine::store::{SignalOutcome, Store};
use hapax_postgres_fixture::Database;
use hapax_store_conformance::must;
use hapax_store_postgres::{Migrated, PostgresOptions, PostgresStore, migrate};

use crate::fixture::{database, stage};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_make_the_tables_once() {
    let database = Database::empty().await.unwrap();
    let open = || {
        let url = database.url();
        tokio::spawn(async move { PostgresStore::open(&url, PostgresOptions::default()).await.unwrap() })
    };
    let opening: Vec<_> = (0..8).map(|_| open()).collect();
    for store in opening {
        store.await.unwrap().close().await.unwrap();
    }
    let admin = database.connect().await.unwrap();
    let versions = admin.query("SELECT version FROM hapax.schema_versions", &[]).await.unwrap();
    assert_eq!(versions.len(), 9);
    let again = migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
    assert_eq!(again, Migrated { from: 9, to: 9 });
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    admin.batch_execute("CREATE SCHEMA hapax; CREATE TABLE hapax.steps (x int)").await.unwrap();
    assert!(migrate(&database.url(), &PostgresOptions::default()).await.is_err());
    let count = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'hapax'";
    let tables: i64 = admin.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(tables, 1, "only the one that stood in the way");
    admin.batch_execute("DROP TABLE hapax.steps").await.unwrap();
    let made = migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
    assert_eq!(made, Migrated { from: 0, to: 9 });
}

#[tokio::test]
async fn two_schemas_of_one_database_are_two_stores() {
    let database = Database::empty().await.unwrap();
    for schema in ["one", "other"] {
        let options = PostgresOptions::default().schema(schema);
        assert_eq!(migrate(&database.url(), &options).await.unwrap(), Migrated { from: 0, to: 9 });
    }
    let admin = database.connect().await.unwrap();
    assert!(admin.query("SELECT 1 FROM one.runs, other.runs", &[]).await.unwrap().is_empty());
}

/// Invariant 62: allowed changes of a future version, made under a running node and before another
/// starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_one_version_older_works_beside_the_newer_one() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let run = t.driven().await;
    let run = t.write(&run).await.does("charge").done().await;
    let admin = database.connect().await.unwrap();
    let next_version = "
        ALTER TABLE hapax.runs ADD COLUMN tier int2 NOT NULL DEFAULT 0;
        ALTER TABLE hapax.run_facts ADD COLUMN origin text;
        ALTER TABLE hapax.steps ADD COLUMN claimed_at int8;
        CREATE INDEX runs_by_tier ON hapax.runs (workspace, tier);
        CREATE TABLE hapax.outbox (workspace int4 NOT NULL, id uuid NOT NULL, PRIMARY KEY (workspace, id));
        INSERT INTO hapax.schema_versions (version, oldest_program)
            SELECT max(version) + 1, max(version) FROM hapax.schema_versions";
    admin.batch_execute(next_version).await.unwrap();
    let run = t.write(&run).await.does("ship").done().await;
    must!(t.signal(&run, "go").await, SignalOutcome::Stored { .. });
    t.write(&run).await.completes("1").done().await;
    t.driven().await;

    let migrated = migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
    assert_eq!(migrated, Migrated { from: 10, to: 10 }, "there is nothing that this program could do");
    for migrates in [true, false] {
        let again = stage(&database.url(), PostgresOptions::default().migrate(migrates)).await;
        assert_eq!(again.log(&run).await.steps.len(), 2);
        assert!(again.fsck().await.is_clean());
        again.store.close().await.unwrap();
    }
    t.store.close().await.unwrap();
}

/// A node of the previous version starts children that do not know the root of their family.
#[tokio::test]
async fn a_child_of_an_older_node_counts_as_one_of_a_root() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").granted_to(hapax_store_conformance::fixture::BOB);
    t.write(&parent).await.awaits_child("ship", &order).done().await;
    let admin = database.connect().await.unwrap();
    let older = "UPDATE hapax.run_facts SET root = NULL, depth = NULL; DELETE FROM hapax.families";
    admin.batch_execute(older).await.unwrap();
    let child = order.start().await;
    assert_eq!((child.facts.root(), child.facts.depth()), (parent.id(), 1));
    let below = t.child_of(&child, "pack");
    t.write(&child).await.awaits_child("pack", &below).done().await;
    let below = below.start().await;
    assert_eq!((below.facts.root(), below.facts.depth()), (parent.id(), 2));
    assert!(t.fsck().await.is_clean());
}
