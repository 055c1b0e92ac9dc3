//! Entities in users' tables on PostgreSQL, and contention for one entity.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    BeginOperationOutcome, EntityStorage, Failure, FinishBy, FinishOperationOutcome, OperationEnd,
    OperationStatus, TableRef, WorkspaceId,
};
use hapax_engine::store::{RevertStrays, StoreError, TransactOperation, TransactOperationOutcome};
use hapax_postgres_fixture::Database;
use hapax_store_conformance::fixture::{TestStore, done, entity_in};
use hapax_store_conformance::must;
use hapax_store_postgres::tokio_postgres::Client;
use hapax_store_postgres::{PostgresOptions, PostgresWork};

use crate::fixture::{database, stage};

const SHOP: &str = "CREATE TYPE stage AS ENUM ('approved', 'overdue', 'closing', 'closed');
    CREATE SCHEMA shop;
    CREATE TABLE invoices (id text PRIMARY KEY, status text NOT NULL, version bigint NOT NULL, updated_at timestamptz NOT NULL);
    CREATE TABLE numbered (id int PRIMARY KEY, status varchar(10) NOT NULL, version int NOT NULL, updated_at bigint NOT NULL);
    CREATE TABLE shop.orders (id uuid PRIMARY KEY, status stage NOT NULL, version numeric NOT NULL,
        updated_at timestamp NOT NULL, lines jsonb);
    CREATE TABLE dated (id date PRIMARY KEY, status char(10) NOT NULL, version bigint NOT NULL, updated_at timestamptz NOT NULL)";

async fn shop() -> (Database, TestStore, Client) {
    let database = database().await;
    let admin = database.connect().await.unwrap();
    admin.batch_execute(SHOP).await.unwrap();
    let t = stage(&database.url(), PostgresOptions::default()).await;
    (database, t, admin)
}

fn table(name: &str) -> EntityStorage {
    EntityStorage::UserTable(TableRef::new(name).unwrap())
}

async fn text(admin: &Client, sql: &str) -> String {
    admin.query_one(sql, &[]).await.unwrap().get(0)
}

/// Of 500 closes of one entity at once, on two nodes, one succeeds, and the others get its
/// operation.
#[tokio::test(flavor = "multi_thread")]
async fn of_five_hundred_that_want_one_entity_one_gets_it_and_the_others_learn_which() {
    let (database, t, admin) = shop().await;
    let put = "INSERT INTO invoices VALUES ('i1', 'approved', 1, now())";
    admin.batch_execute(put).await.unwrap();
    let other = stage(&database.url(), PostgresOptions::default()).await;
    t.invoice(&EntityStorage::BuiltIn, "i1", "approved").await;
    for home in [EntityStorage::BuiltIn, table("invoices")] {
        let asking: Vec<_> = (0..500)
            .map(|n| {
                let store = if n % 2 == 0 { t.store.clone() } else { other.store.clone() };
                let request = t.close(&home, "i1").request();
                tokio::spawn(
                    async move { store.entity_store().unwrap().begin_operation(request).await.unwrap() },
                )
            })
            .collect();
        let (mut winners, mut told) = (Vec::new(), Vec::new());
        for asked in asking {
            match asked.await.unwrap() {
                BeginOperationOutcome::Begun { operation, .. } => winners.push(operation.id),
                BeginOperationOutcome::ClaimFailed(Some(holder)) => told.push(holder.id),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(winners.len(), 1);
        assert_eq!(told, vec![winners[0]; 499]);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
    }
}

/// One key, used on many entities at once, names one of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_names_one_operation_however_many_ask_at_once() {
    let (database, t, _admin) = shop().await;
    let other = stage(&database.url(), PostgresOptions::default()).await;
    for n in 0..20 {
        t.invoice(&EntityStorage::BuiltIn, &format!("i{n}"), "approved").await;
    }
    let asking: Vec<_> = (0..100)
        .map(|n| {
            let store = if n % 3 == 0 { t.store.clone() } else { other.store.clone() };
            let request = t.close(&EntityStorage::BuiltIn, &format!("i{}", n % 20)).key("k").request();
            tokio::spawn(async move { store.entity_store().unwrap().begin_operation(request).await.unwrap() })
        })
        .collect();
    let (mut winners, mut told) = (Vec::new(), Vec::new());
    for asked in asking {
        match asked.await.unwrap() {
            BeginOperationOutcome::Begun { operation, .. } => winners.push(operation.id),
            BeginOperationOutcome::Recorded(known) | BeginOperationOutcome::KeyConflict(known) => {
                told.push(known.id)
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(told, vec![winners[0]; 99]);
}

#[tokio::test]
async fn columns_of_many_types_are_read_and_written_as_they_are() {
    let (_database, t, admin) = shop().await;
    let put = "INSERT INTO numbered VALUES (7, 'approved', 1, 1500);
        INSERT INTO shop.orders VALUES ('00000000-0000-0000-0000-0000000000aa', 'approved', 1, '1970-01-01 00:00:01.5', '[1]');
        INSERT INTO dated VALUES ('2024-02-29', 'approved', 1, '1970-01-01 00:00:01.5+00')";
    admin.batch_execute(put).await.unwrap();
    let orders = EntityStorage::UserTable(TableRef {
        data: vec!["lines".into()],
        ..TableRef::new("shop.orders").unwrap()
    });
    let homes = [
        (table("numbered"), "7"),
        (orders, "00000000-0000-0000-0000-0000000000aa"),
        (table("dated"), "2024-02-29"),
    ];
    for (home, id) in &homes {
        let entity = t.entity(home, id).await;
        assert_eq!((entity.status.as_str(), entity.version.get()), ("approved", 1), "{id}");
        assert_eq!(entity.updated_at.as_millis(), 1500, "{id}");
        let held = t.close(home, id).begins().await;
        assert_eq!(t.standing(home, id).await, ("closing".into(), 2));
        assert_eq!(t.entity(home, id).await.updated_at, t.now(), "{id}");
        assert_eq!(t.entity_ids(t.all_invoices(home)).await, [*id]);
        must!(held.done("1").await, FinishOperationOutcome::Finished { .. });
        assert_eq!(t.standing(home, id).await, ("closed".into(), 3));
    }
    assert_eq!(t.entity(&homes[1].0, homes[1].1).await.data.as_str(), r#"{"lines":[1]}"#);
    for (home, id) in &homes {
        let EntityStorage::UserTable(table) = home else { continue };
        let name = &table.table;
        admin.batch_execute(&format!("UPDATE {name} SET status = 'closing', version = 4")).await.unwrap();
        let strays = |before| RevertStrays { table: table.clone(), ..t.strays(before) };
        let since = t.entity(home, id).await.updated_at;
        assert!(t.entities().revert_strays(strays(since)).await.unwrap().is_empty(), "{id}");
        t.pass(Duration::from_millis(1));
        let reverted = t.entities().revert_strays(strays(t.now())).await.unwrap();
        assert_eq!(reverted, [entity_in(home, id).id]);
        assert_eq!(t.standing(home, id).await, ("approved".into(), 5));
        assert_eq!(t.entity(home, id).await.updated_at, t.now(), "{id}");
        let held = t.close(home, id).seen(5).begins().await;
        t.pass(Duration::from_millis(1));
        assert!(t.entities().revert_strays(strays(t.now())).await.unwrap().is_empty(), "{id} is held");
        must!(held.done("1").await, FinishOperationOutcome::Finished { .. });
    }
    let mut wanted = t.all_invoices(&homes[0].0);
    wanted.after = Some(entity_in(&homes[0].0, "6").id);
    assert_eq!(t.entity_ids(wanted).await, ["7"]);
}

/// A row has one id: malformed ids, and other spellings, name nothing.
#[tokio::test]
async fn what_cannot_be_an_id_names_nothing() {
    let (_database, t, admin) = shop().await;
    let put = "INSERT INTO numbered VALUES (7, 'approved', 1, 0);
        INSERT INTO shop.orders VALUES ('00000000-0000-0000-0000-0000000000aa', 'approved', 1, now());
        INSERT INTO dated VALUES ('2024-02-29', 'approved', 1, now())";
    admin.batch_execute(put).await.unwrap();
    for (home, id) in [
        ("numbered", "abc"),
        ("numbered", "007"),
        ("numbered", "+7"),
        ("numbered", "7.0"),
        ("numbered", "99999999999"),
        ("numbered", "99999999999999999999"),
        ("shop.orders", "7"),
        ("shop.orders", "00000000-0000-0000-0000-0000000000AA"),
        ("shop.orders", "000000000000000000000000000000aa"),
        ("dated", "2023-02-29"),
        ("dated", "29 feb 2024"),
    ] {
        let home = table(home);
        assert_eq!(t.find_invoice(&home, id).await, None, "{id}");
        must!(t.close(&home, id).send().await, BeginOperationOutcome::NoSuchEntity);
        must!(t.close(&home, id).key("k").send().await, BeginOperationOutcome::NoSuchEntity);
    }
}

#[tokio::test]
async fn a_table_that_changes_is_looked_at_again() {
    let (_database, t, admin) = shop().await;
    admin.batch_execute("INSERT INTO numbered VALUES (7, 'approved', 1, 0)").await.unwrap();
    let home = table("numbered");
    let held = t.close(&home, "7").begins().await;
    admin
        .batch_execute(
            "ALTER TABLE numbered ALTER id TYPE bigint, ALTER status TYPE stage USING status::stage",
        )
        .await
        .unwrap();
    must!(held.finish(OperationEnd::Reverted).await, FinishOperationOutcome::Finished { .. });
    let held = t.close(&home, "7").seen(3).begins().await;
    admin.batch_execute("ALTER TABLE numbered ALTER id TYPE text").await.unwrap();
    assert_eq!(t.standing(&home, "7").await, ("closing".into(), 4));
    admin.batch_execute("ALTER TABLE numbered RENAME version TO revision").await.unwrap();
    let refused = t.entities().finish_operation(held.own_end(done("1"))).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("version")), "{refused:?}");
    let refused = t.entities().begin_operation(t.close(&home, "7").request()).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("version")), "{refused:?}");
    admin.batch_execute("ALTER TABLE numbered RENAME revision TO version").await.unwrap();
    must!(held.done("1").await, FinishOperationOutcome::Finished { .. });
    assert_eq!(held.status().await, OperationStatus::Done);
    admin.batch_execute("DROP TABLE numbered").await.unwrap();
    let refused = t.entities().list_entities(t.all_invoices(&home)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused(why)) if why.contains("no table numbered")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_table_that_cannot_be_used_is_refused_with_the_reason() {
    let (_database, t, admin) = shop().await;
    let odd = "CREATE VIEW seen AS SELECT * FROM invoices;
        CREATE TABLE loose (id text, status text, version bigint, updated_at timestamptz);
        CREATE TABLE paired (id text, part text, status text, version bigint, updated_at timestamptz, UNIQUE (id, part));
        CREATE TABLE worded (id text PRIMARY KEY, status text, version text, updated_at timestamptz);
        CREATE TABLE undated (id text PRIMARY KEY, status text, version bigint, updated_at text)";
    admin.batch_execute(odd).await.unwrap();
    for (name, why) in [
        ("nothing", "there is no table nothing"),
        ("nowhere.invoices", "there is no table nowhere.invoices"),
        ("hapax.runs", "no table of yours"),
        ("hapax.entities", "no table of yours"),
        ("pg_catalog.pg_class", "no table of yours"),
        ("seen", "not a table"),
        ("loose", "no unique index on id alone"),
        ("paired", "no unique index on id alone"),
        ("worded", "column version of table worded is text"),
        ("undated", "column updated_at of table undated is text"),
    ] {
        let refused = t.entities().check_table(&TableRef::new(name).unwrap()).await;
        assert!(
            matches!(&refused, Err(StoreError::Refused(said)) if said.contains(why)),
            "{name}: {refused:?}"
        );
    }
    for name in ["invoices", "public.invoices", "shop.orders", "numbered"] {
        t.entities().check_table(&TableRef::new(name).unwrap()).await.unwrap();
    }
    let crafty = TableRef { id: "id\" = '' OR \"id".into(), ..TableRef::new("invoices").unwrap() };
    let refused = t.entities().check_table(&crafty).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

/// A row that one entity's table rejects does not affect the others in the same commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_written_spoils_nothing_for_others() {
    let (_database, t, admin) = shop().await;
    let put = "ALTER TABLE invoices ADD CHECK (id <> 'i7' OR status <> 'closing');
        INSERT INTO invoices SELECT 'i' || n, 'approved', 1, now() FROM generate_series(0, 19) AS n";
    admin.batch_execute(put).await.unwrap();
    let home = table("invoices");
    let asking: Vec<_> = (0..20)
        .map(|n| {
            let (store, request) = (t.store.clone(), t.close(&home, &format!("i{n}")).request());
            tokio::spawn(async move { store.entity_store().unwrap().begin_operation(request).await })
        })
        .collect();
    for (n, asked) in asking.into_iter().enumerate() {
        match asked.await.unwrap() {
            Ok(BeginOperationOutcome::Begun { .. }) if n != 7 => {}
            Err(StoreError::Refused(_)) if n == 7 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(t.standing(&home, "i7").await, ("approved".into(), 1));
}

/// S1.9: the action's writes and the status change are one commit, and other transactions wait for
/// the row until then.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_holds_the_row_and_the_janitor_do_not_wait_for_each_other_in_a_circle() {
    let (_database, t, admin) = shop().await;
    let put = "ALTER TABLE invoices ADD COLUMN total bigint NOT NULL DEFAULT 0;
        INSERT INTO invoices SELECT 'i' || n, 'approved', 1, now() FROM generate_series(0, 9) AS n";
    admin.batch_execute(put).await.unwrap();
    let home = table("invoices");
    let t = Arc::new(t);
    for n in 0..10 {
        let id = format!("i{n}");
        let held = t.close(&home, &id).begins().await;
        t.pass(Duration::from_millis(1));
        let janitor = held.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted);
        let (row, finish) = (id.clone(), held.own_end(done("1")));
        let work = PostgresWork::new(move |transaction| {
            let row = row.clone();
            Box::pin(async move {
                let write = "UPDATE invoices SET total = total + 1 WHERE id = $1";
                transaction.execute(write, &[&row]).await.map_err(Failure::unknown)?;
                Ok(1)
            })
        });
        let request =
            TransactOperation { work: Box::new(work), finish: Box::new(move |_| Ok(finish.clone())) };
        let (worked, swept) =
            tokio::join!(t.entities().transact_operation(request), t.entities().finish_operation(janitor));
        let total = text(&admin, &format!("SELECT total::text FROM invoices WHERE id = '{id}'")).await;
        match (worked.unwrap(), swept.unwrap()) {
            (
                TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { .. }),
                FinishOperationOutcome::Lost(_),
            ) => {
                assert_eq!((t.standing(&home, &id).await, total.as_str()), (("closed".into(), 3), "1"));
            }
            (
                TransactOperationOutcome::Worked(FinishOperationOutcome::Lost(_)),
                FinishOperationOutcome::Finished { .. },
            ) => {
                assert_eq!((t.standing(&home, &id).await, total.as_str()), (("approved".into(), 3), "0"));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The tables themselves allow at most one operation per key, and one holder per entity.
#[tokio::test]
async fn the_tables_themselves_let_no_second_holder_in() {
    let (_database, t, admin) = shop().await;
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let columns = "workspace, attempt, owner, version, began_at, at, recovery, irreversible, has_run, kind, entity, workflow, module,
        step, from_status, to_status, claim_into, revert_to, fingerprint, input";
    let copy = |status: &str, extra: &str| {
        format!(
            "INSERT INTO hapax.operations ({columns}, id, status, outcome) SELECT {columns}, gen_random_uuid(), {status}, {extra}
            FROM hapax.operations"
        )
    };
    for (status, extra) in [("0", "NULL"), ("5", "NULL"), ("1", "NULL"), ("4", "'1'"), ("6", "NULL")] {
        assert!(admin.execute(&copy(status, extra), &[]).await.is_err(), "{status}");
    }
    admin.execute(&copy("1", "'1'"), &[]).await.unwrap();
    assert_eq!(held.status().await, OperationStatus::Pending);
}

/// A node of the previous version works beside: it knows nothing of entities, and none of its
/// writes fail.
#[tokio::test]
async fn tables_of_the_third_version_are_brought_up_to_date() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let set_up = "SET search_path = hapax; SELECT set_config('hapax.schema', 'hapax', false)";
    for sql in [
        set_up,
        include_str!("../../sql/create_schema.sql"),
        include_str!("../../migrations/0001_runs_steps_keys.sql"),
        include_str!("../../migrations/0002_requests_catalog.sql"),
        include_str!("../../migrations/0003_promise_keys_webhooks.sql"),
        "INSERT INTO schema_versions (version, oldest_program) VALUES (1, 1), (2, 1), (3, 2)",
    ] {
        admin.batch_execute(sql).await.unwrap();
    }
    let insert = "INSERT INTO items (kind, id, workspace, name, version, body, created_at, changed_at)
        VALUES (5, $1, 1, $1, 1, '{}', 0, 0)";
    admin.execute(insert, &[&"before"]).await.unwrap();
    let t = stage(&database.url(), PostgresOptions::default()).await;
    admin.execute(insert, &[&"beside"]).await.unwrap();
    must!(
        t.closing(&EntityStorage::BuiltIn, "i1").await.done("1").await,
        FinishOperationOutcome::Finished { .. }
    );
    let found = t
        .entities()
        .find_entity(
            &WorkspaceId::default(),
            &entity_in(&EntityStorage::BuiltIn, "i1"),
            &EntityStorage::BuiltIn,
        )
        .await;
    assert_eq!(found.unwrap().unwrap().status.as_str(), "closed");
}
