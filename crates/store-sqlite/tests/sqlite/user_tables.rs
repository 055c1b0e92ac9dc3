//! Entities in tables of the user's, in the same file.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    BeginOperationOutcome, Entity, EntityStorage, FinishOperation, FinishOperationOutcome, OperationEnd,
    Payload, TableRef, Timestamp, Version,
};
use hapax_engine::store::{
    EntityStore, ListEntities, ListEntityJournal, RevertStrays, Store, StoreError, TransactOperation,
    TransactOperationOutcome,
};
use hapax_store_sqlite::rusqlite::Connection;
use hapax_store_sqlite::rusqlite::types::Value;
use hapax_store_sqlite::{SqliteStore, SqliteWork};

use crate::entities::*;
use crate::fixture::*;

fn table(name: &str) -> TableRef {
    TableRef::new(name).unwrap()
}

fn in_table(name: &str) -> EntityStorage {
    EntityStorage::UserTable(table(name))
}

/// The user's own code, on a connection of its own.
fn user(place: &TestFolder, sql: &str) {
    let connection = Connection::open(place.file()).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// The columns of the row with rowid 1 or 42.
fn row(place: &TestFolder, table: &str) -> (Value, i64, Value) {
    let select = format!("SELECT status, version, updated_at FROM {table} ORDER BY rowid LIMIT 1");
    let get = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Connection::open(place.file()).unwrap().query_row(&select, [], get).unwrap()
}

fn why<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn strays(table: &TableRef, before: Timestamp) -> RevertStrays {
    let (claim, table) = (closing(), table.clone());
    RevertStrays { workspace: workspace(), kind: name("invoice"), table, claim, before, limit: 10 }
}

async fn reverted(store: &SqliteStore, request: RevertStrays) -> Vec<String> {
    store.revert_strays(request).await.unwrap().iter().map(ToString::to_string).collect()
}

fn page(home: &EntityStorage) -> ListEntities {
    let (workspace, kind, home) = (workspace(), name("invoice"), home.clone());
    ListEntities { workspace, kind, home, status: None, after: None, limit: 10 }
}

async fn listed(store: &SqliteStore, request: ListEntities) -> Vec<String> {
    let entities = store.list_entities(request).await.unwrap();
    entities.iter().map(|entity| entity.entity.id.to_string()).collect()
}

/// The whole way of a row whose id is a number, whose instant is one too, and which was made while the store was open.
#[tokio::test]
async fn a_row_with_whole_numbers_is_found_claimed_and_closed() {
    let place = TestFolder::new();
    let store = place.open().await;
    let home = in_table("invoices");
    assert!(why(store.check_table(&table("invoices")).await).contains("no table invoices"));
    user(
        &place,
        "CREATE TABLE invoices (id INTEGER PRIMARY KEY, status TEXT NOT NULL, version INT NOT NULL, updated_at BIGINT NOT NULL);
         INSERT INTO invoices VALUES (42, 'open', 3, 1000), (7, 'open', 1, 1), (100, 'paid', 1, 1)",
    );
    store.check_table(&table("invoices")).await.unwrap();
    let entity = find(&store, "42", &home).await.unwrap();
    let expected = Entity {
        entity: invoice("42"),
        status: name("open"),
        version: Version::new(3),
        data: Payload::parse("{}").unwrap(),
        updated_at: Timestamp::from_millis(1000),
    };
    assert_eq!(entity, expected);
    for other in ["042", " 42", "42.0", "4.2e1", "43"] {
        assert_eq!(
            find(&store, other, &home).await,
            None,
            "{other} is another entity, if SQLite says the same or not"
        );
    }
    assert_eq!(listed(&store, page(&home)).await, ["7", "42", "100"], "in the order of numbers");
    let after = |id: &str| Some(invoice(id).id);
    assert_eq!(listed(&store, ListEntities { after: after("7"), ..page(&home) }).await, ["42", "100"]);
    assert_eq!(listed(&store, ListEntities { after: after("42"), limit: 1, ..page(&home) }).await, ["100"]);
    assert_eq!(listed(&store, ListEntities { status: Some(name("paid")), ..page(&home) }).await, ["100"]);

    let held = begin(&store, close(&home, &entity, 1)).await;
    let now = || Value::Integer(store.now().as_millis());
    let of_42 = |place: &TestFolder| {
        user(place, "DELETE FROM invoices WHERE id <> 42");
        row(place, "invoices")
    };
    assert_eq!(of_42(&place), (text("closing"), 4, now()));
    place.clock.advance(LEASE);
    finish(&store, done(&held)).await;
    assert_eq!(of_42(&place), (text("closed"), 5, now()));
}

/// The type of the column says how instants are written, whatever was in the row before.
#[tokio::test]
async fn instants_are_written_as_the_column_asks_and_read_as_they_are() {
    let place = TestFolder::new();
    let store = place.open().await;
    let at = "2023-11-14T22:13:20.123Z";
    for (number, (declared, before, read)) in [
        ("TEXT", format!("'{at}'"), 1_700_000_000_123),
        ("TEXT", "'2023-11-14 22:13:20'".into(), 1_700_000_000_000),
        ("TIMESTAMP", "'2023-11-14T23:13:20.123+01:00'".into(), 1_700_000_000_123),
        ("", "1700000000123".into(), 1_700_000_000_123),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", "NULL".into(), 0),
        ("TEXT", "'yesterday'".into(), 0),
        ("INTEGER", "1700000000123".into(), 1_700_000_000_123),
        ("UNSIGNED BIG INT", format!("'{at}'"), 1_700_000_000_123),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, id) = (format!("t{number}"), number as u128 + 1);
        user(
            &place,
            &format!(
                "CREATE TABLE {name} (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at {declared});
                 INSERT INTO {name} VALUES ('{number}', 'open', 0, {before})"
            ),
        );
        let home = in_table(&name);
        let entity = find(&store, &number.to_string(), &home).await.unwrap();
        assert_eq!(entity.updated_at.as_millis(), read, "{declared} {before}");
        begin(&store, close(&home, &entity, id)).await;
        let now = match declared.contains("INT") {
            true => Value::Integer(store.now().as_millis()),
            false => text(&store.now().to_string()),
        };
        assert_eq!(row(&place, &name), (text("closing"), 1, now), "{declared}");
        let entity = find(&store, &number.to_string(), &home).await.unwrap();
        assert_eq!(entity.updated_at, store.now());
    }
}

/// S1.14: what something else left in a transient status goes back, however its instant is written; what an operation holds stays.
#[tokio::test]
async fn strays_go_back_unless_they_are_held_or_young() {
    let place = TestFolder::new();
    let store = place.open().await;
    for (table_name, declared) in [("a", "TEXT"), ("b", "INTEGER")] {
        let (home, table) = (in_table(table_name), table(table_name));
        user(
            &place,
            &format!(
                "CREATE TABLE {table_name} (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at {declared})"
            ),
        );
        let now = store.now();
        let before = now.minus(Duration::from_secs(300));
        let put = |id: &str, status: &str, at: &str| {
            user(&place, &format!("INSERT INTO {table_name} VALUES ('{id}', '{status}', 1, {at})"));
        };
        let second_before = before.minus(Duration::from_secs(1));
        let sql_text = |at: Timestamp| at.to_string()[..19].replace('T', " ");
        put("a-number", "closing", &before.minus(Duration::from_millis(1)).as_millis().to_string());
        put("b-number-in-time", "closing", &before.as_millis().to_string());
        put("c-instant", "closing", &format!("'{}'", before.minus(Duration::from_millis(1))));
        put("d-instant-in-time", "closing", &format!("'{before}'"));
        put("e-sql", "closing", &format!("'{}'", sql_text(second_before)));
        put("f-sql-in-time", "closing", &format!("'{}'", sql_text(now)));
        put("g-unknown", "closing", "NULL");
        put("h-not-claimed", "open", "0");
        put("i-held", "open", "0");
        user(
            &place,
            &format!("INSERT INTO {table_name} VALUES (NULL, 'closing', 1, 0), ('bad', 'closing', 'x', 0)"),
        );
        let entity = find(&store, "i-held", &home).await.unwrap();
        let held = begin(&store, close(&home, &entity, u128::from(table_name.as_bytes()[0]))).await;
        user(&place, &format!("UPDATE {table_name} SET updated_at = 0 WHERE id = 'i-held'"));

        let one = RevertStrays { limit: 1, ..strays(&table, before) };
        // An integer in a column of text is a text, and no instant.
        assert_eq!(reverted(&store, one).await, ["a-number"]);
        let rest = reverted(&store, strays(&table, before)).await;
        let expected: &[&str] = match declared {
            "TEXT" => &["b-number-in-time", "c-instant", "e-sql", "g-unknown"],
            _ => &["c-instant", "e-sql", "g-unknown"],
        };
        assert_eq!(rest, expected, "{declared}");
        let back = find(&store, "e-sql", &home).await.unwrap();
        assert_eq!((back.status, back.version.get(), back.updated_at), (name("open"), 2, now));
        let notes = ListEntityJournal {
            workspace: workspace(),
            entity: invoice("e-sql"),
            operation: None,
            after: 0,
            limit: 10,
        };
        assert!(!store.list_entity_journal(notes).await.unwrap().is_empty());
        assert_eq!(reverted(&store, strays(&table, before)).await, [""; 0]);
        finish(&store, done(&held)).await;
    }
    assert!(why(store.revert_strays(strays(&table("gone"), store.now())).await).contains("no table gone"));
}

#[tokio::test]
async fn a_table_that_cannot_be_used_is_refused_in_words() {
    let place = TestFolder::new();
    let store = place.open().await;
    user(
        &place,
        "CREATE TABLE lacking (id TEXT PRIMARY KEY, version INTEGER, at INTEGER);
         CREATE TABLE loose (id TEXT, status TEXT, version INTEGER, updated_at TEXT);
         CREATE TABLE partly (id TEXT, status TEXT, version INTEGER, updated_at TEXT);
         CREATE UNIQUE INDEX partly_id ON partly (id) WHERE status = 'open';
         CREATE UNIQUE INDEX partly_pair ON partly (id, version);
         CREATE TABLE paired (id TEXT, status TEXT, version INTEGER, updated_at TEXT, PRIMARY KEY (id, version));
         CREATE TABLE good (Id TEXT, STATUS TEXT, version INTEGER, updated_at TEXT, total INTEGER AS (version + 1));
         CREATE UNIQUE INDEX good_id ON good (id);
         INSERT INTO good (id, status, version, updated_at) VALUES ('1', 'open', 1, '');
         INSERT INTO lacking VALUES ('1', 1, 1);
         CREATE VIEW seen AS SELECT * FROM good",
    );
    let lacking = why(store.check_table(&table("lacking")).await);
    assert!(lacking.contains("no column status, nor updated_at"), "{lacking}");
    for loose in ["loose", "partly", "paired", "seen"] {
        let refused = why(store.check_table(&table(loose)).await);
        assert!(refused.contains("primary key"), "{loose}: {refused}");
    }
    for good in [table("good"), table("main.good"), TableRef { data: vec!["total".into()], ..table("good") }]
    {
        store.check_table(&good).await.unwrap();
        assert!(find(&store, "1", &EntityStorage::UserTable(good)).await.is_some());
    }
    for gone in ["gone", "other.good", "temp.good"] {
        let refused = why(store.check_table(&table(gone)).await);
        assert!(refused.contains(&format!("no table {gone}")), "{refused}");
    }
    // Names that were never checked do not get through either, and a column that is not there is not a text.
    let evil = TableRef { status: "status\" FROM hapax_runs --".into(), ..table("good") };
    let shown = TableRef { data: vec!["colour".into()], ..table("good") };
    let entity = find(&store, "1", &in_table("good")).await.unwrap();
    for (bad, says) in
        [(table("lacking"), "no column status"), (evil, "name of a column"), (shown, "no column colour")]
    {
        let home = EntityStorage::UserTable(bad.clone());
        for refused in [
            why(store.find_entity(&workspace(), &invoice("1"), &home).await),
            why(store.list_entities(page(&home)).await),
            why(store.begin_operation(close(&home, &entity, 1)).await),
            why(store.check_table(&bad).await),
        ] {
            assert!(refused.contains(says), "{refused}");
        }
    }
    let unreadable = why(store.revert_strays(strays(&table("lacking"), store.now())).await);
    assert!(unreadable.contains("no column status"), "{unreadable}");
}

/// A table may come, go and come back in another shape while statements over it are at hand.
#[tokio::test]
async fn a_table_that_is_made_anew_under_the_store_is_found_in_its_new_shape() {
    let place = TestFolder::new();
    let store = place.open().await;
    let home = in_table("invoices");
    let columns = "id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at";
    let fill = "INSERT INTO invoices VALUES ('1', 'open', 1, 1000)";
    for (id, declared) in [(1, "TEXT"), (2, "INTEGER"), (3, "TEXT")] {
        user(&place, &format!("CREATE TABLE invoices ({columns} {declared}); {fill}"));
        let entity = find(&store, "1", &home).await.unwrap();
        let held = begin(&store, close(&home, &entity, id)).await;
        finish(&store, done(&held)).await;
        let is_number = matches!(row(&place, "invoices").2, Value::Integer(_));
        assert_eq!(is_number, declared == "INTEGER");
        user(&place, "DROP TABLE invoices");
        assert!(why(store.find_entity(&workspace(), &invoice("1"), &home).await).contains("no table"));
        assert!(why(store.begin_operation(close(&home, &entity, 9)).await).contains("no table"));
    }
}

/// The user's own rules hold: a row that does not take the transient status is not claimed, and nobody else's writes go with it.
#[tokio::test]
async fn a_row_that_does_not_take_the_status_refuses_its_operation_alone() {
    let place = TestFolder::new();
    let store = Arc::new(place.open().await);
    user(
        &place,
        "CREATE TABLE strict_ones (id TEXT PRIMARY KEY, status TEXT CHECK (status <> 'closing'), version INTEGER, updated_at TEXT);
         CREATE TABLE kept (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT);
         CREATE TABLE twice (id TEXT, status TEXT, version INTEGER, updated_at TEXT);
         CREATE TABLE rude (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT);
         CREATE TABLE good (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT);
         CREATE TRIGGER keeps BEFORE UPDATE ON kept BEGIN SELECT RAISE(IGNORE); END;
         CREATE TRIGGER ends BEFORE UPDATE ON rude BEGIN SELECT RAISE(ROLLBACK, 'not today'); END;
         INSERT INTO strict_ones VALUES ('0', 'open', 1, '');
         INSERT INTO kept VALUES ('1', 'open', 1, '');
         INSERT INTO twice VALUES ('2', 'open', 1, ''), ('2', 'open', 1, '');
         INSERT INTO rude VALUES ('3', 'open', 1, '');
         INSERT INTO good VALUES ('4', 'open', 1, ''), ('5', 'open', 1, '')",
    );
    let tables = ["strict_ones", "kept", "twice", "rude", "good", "good"];
    let begun: Vec<_> = (0..)
        .zip(tables)
        .map(|(id, table)| {
            let store = store.clone();
            tokio::spawn(async move {
                let home = in_table(table);
                let entity = find(&store, &id.to_string(), &home).await.unwrap();
                store.begin_operation(close(&home, &entity, id as u128 + 1)).await
            })
        })
        .collect();
    let says = ["CHECK", "trigger", "2 rows", "not today"];
    for (place, begun) in begun.into_iter().enumerate() {
        let outcome = begun.await.unwrap();
        match says.get(place) {
            Some(says) => {
                let refused = why(outcome);
                assert!(
                    refused.contains(says) && refused.contains("does not take the status closing"),
                    "{refused}"
                );
            }
            None => assert!(matches!(outcome, Ok(BeginOperationOutcome::Begun { .. })), "{outcome:?}"),
        }
    }
    for (id, table) in (0..4).zip(tables) {
        let entity = find(&store, &id.to_string(), &in_table(table)).await.unwrap();
        assert_eq!((entity.status, entity.version.get()), (name("open"), 1), "{table}");
    }
}

/// S1.10: the action writes its row and others in the transaction that flips the status.
#[tokio::test]
async fn an_action_writes_the_row_in_the_transaction_that_closes_it() {
    let place = TestFolder::new();
    let store = place.open().await;
    user(
        &place,
        "CREATE TABLE invoices (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT, total INTEGER, lines JSON, share REAL,
            scan BLOB, words TEXT);
         INSERT INTO invoices VALUES ('1', 'open', 1, '', 7, '[1,{\"a\":2}]', 0.5, x'00ff', 'a \"b\"')",
    );
    let data = ["total", "lines", "share", "scan", "words"].map(String::from).to_vec();
    let home = EntityStorage::UserTable(TableRef { data, ..table("invoices") });
    let entity = find(&store, "1", &home).await.unwrap();
    let expected = r#"{"lines":[1,{"a":2}],"scan":"\\x00ff","share":0.5,"total":7,"words":"a \"b\""}"#;
    assert_eq!(entity.data.as_str(), expected);
    let held = begin(&store, close(&home, &entity, 1)).await;

    let patch =
        OperationEnd::Done { result: Payload::null(), data: Some(Payload::parse(r#"{"total":9}"#).unwrap()) };
    let refused = why(store.finish_operation(FinishOperation { end: patch, ..done(&held) }).await);
    assert!(refused.contains("let the action write them"), "{refused}");
    let regenerate = |total: i64| {
        let work = SqliteWork::new(move |connection| {
            connection.execute("UPDATE invoices SET total = ?1, lines = NULL", [total])?;
            Ok(total)
        });
        let finishing = done(&held);
        let finish = move |result| {
            let end = OperationEnd::Done { result, data: None };
            Ok(FinishOperation { end, ..finishing.clone() })
        };
        TransactOperation { work: Box::new(work), finish: Box::new(finish) }
    };
    let worked = store.transact_operation(regenerate(8)).await.unwrap();
    let TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { entity: Some(told), .. }) =
        worked
    else {
        panic!("{worked:?}")
    };
    let closed = find(&store, "1", &home).await.unwrap();
    assert_eq!((&closed, closed.status.as_str(), closed.version.get()), (&told, "closed", 3));
    assert!(
        closed.data.as_str().contains(r#""lines":null"#) && closed.data.as_str().contains(r#""total":8"#)
    );
    let zombie = store.transact_operation(regenerate(9)).await.unwrap();
    assert!(
        matches!(zombie, TransactOperationOutcome::Worked(FinishOperationOutcome::Lost(_))),
        "{zombie:?}"
    );
    assert_eq!(find(&store, "1", &home).await.unwrap(), closed);
}

/// A row that no entity can be says which row and which column.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let place = TestFolder::new();
    let store = place.open().await;
    user(
        &place,
        "CREATE TABLE invoices (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT);
         INSERT INTO invoices VALUES ('1', 'in review', 1, ''), ('2', 'open', 'x', ''), ('3', NULL, 1, ''), ('4', 'open', -1, '')",
    );
    let home = in_table("invoices");
    for (id, column) in [("1", "status"), ("2", "version"), ("3", "status"), ("4", "version")] {
        let refused = why(store.find_entity(&workspace(), &invoice(id), &home).await);
        assert!(
            refused.contains(&format!("the row {id} of invoices")) && refused.contains(column),
            "{refused}"
        );
    }
}
