//! Files of older versions, with what they hold.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hapax_engine::model::{
    CatalogKind, CommitBuilder, Fingerprint, IdempotencyKey, KeyKind, KeyTarget, Name, Payload, Promise,
    PromiseId, PromiseKey, PromiseState, RunId, Settlement, Timestamp,
};
use hapax_engine::store::{
    Catalog, CommitOutcome, KeyRef, KeyUsage, PutCatalogItem, PutOutcome, RequestKeyStore, StartOutcome,
    Store,
};
use hapax_store_sqlite::find_schema;
use rusqlite::Connection;

use crate::fixture::*;

/// Makes a file as a program of that version would have.
fn file_of_version(place: &TestFolder, version: usize) -> Connection {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut migrations: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    migrations.sort();
    let file = Connection::open(place.file()).unwrap();
    for migration in &migrations[..version] {
        file.execute_batch(&fs::read_to_string(migration).unwrap()).unwrap();
    }
    file
}

const ROWS: &str = "
    INSERT INTO hapax_workspaces (id, name) VALUES (1, 'default');
    INSERT INTO hapax_workflows (id, name) VALUES (1, 'order');
    INSERT INTO hapax_runs (workspace, id, version, changed_at, stalls, fence, status, wake_at, arrivals, generation, asked,
        priority, workflow, workflow_version)
    VALUES (1, unhex('00000000000000000000000000000001'), 1, 5, 0, 0, 0, 5, 0, 0, 0, 1, 1, 1);
    INSERT INTO hapax_run_facts (id, workspace, created_at, key, fingerprint, release_on_failure, input)
    VALUES (unhex('00000000000000000000000000000001'), 1, 5, 'k', zeroblob(32), 0, '1');
    INSERT INTO hapax_keys (workspace, kind, key, run, fingerprint, first_seen_at, expires_at, replays, conflicts) VALUES
        (1, 0, 'k', unhex('00000000000000000000000000000001'), zeroblob(32), 5, NULL, 3, 4),
        (1, 0, 'spent', unhex('00000000000000000000000000000002'), zeroblob(32), 1, 2, 0, 0);
    INSERT INTO hapax_promises (workspace, id, run, deadline_at, status, settled_at, value) VALUES
        (1, 'p0', unhex('00000000000000000000000000000001'), 9000000000000, 0, NULL, NULL),
        (1, 'p1', unhex('00000000000000000000000000000001'), NULL, 1, 7, '\"yes\"'),
        (1, 'p3', unhex('00000000000000000000000000000001'), 6, 3, NULL, NULL);
    INSERT INTO hapax_items (kind, id, workspace, name, version, created_at, changed_at, body)
    VALUES (2, 'd1', 1, 'payout', 2, 5, 6, '{}');
";

/// Old keys, promises and items mean what they meant; new ones stand beside them.
#[tokio::test]
async fn a_file_of_version_two_keeps_its_keys_promises_and_items() {
    let place = TestFolder::new();
    file_of_version(&place, 2).execute_batch(ROWS).unwrap();
    let store = place.open().await;
    let run = RunId::from_u128(1);
    let key = |text| IdempotencyKey::new(text).unwrap();

    let record = store.find_key(&workspace(), KeyKind::Run, &key("k")).await.unwrap().unwrap();
    assert_eq!(record.target, KeyTarget::Run { run, fingerprint: Fingerprint::from_bytes([0; 32]) });
    assert_eq!((record.first_seen_at, record.expires_at), (Timestamp::from_millis(5), None));
    let place_of_key = KeyRef::Run { workspace: workspace(), key: key("k") };
    let uses = KeyUsage { replays: 3, conflicts: 4 };
    assert_eq!(store.find_key_usage(&place_of_key).await.unwrap(), uses);
    let conflict = store.start_run(with_key(9, "k", "a")).await.unwrap();
    assert!(matches!(conflict, StartOutcome::KeyConflict { run: holder, .. } if holder == run));
    let purge = hapax_engine::store::Purge { runs_closed_before: None, after: None, limit: 10 };
    assert_eq!(store.purge(purge).await.unwrap().keys, 1, "by the index that was made anew");

    let promises = store.find_log(&workspace(), run).await.unwrap().unwrap().promises;
    let made = |id| Promise::pending(PromiseId::from_stored(id), run, Timestamp::from_millis(5), None);
    let settlement = Settlement::Resolved(Payload::of("yes").unwrap());
    let expected = [
        Promise { deadline_at: Some(Timestamp::from_millis(9_000_000_000_000)), ..made("p0") },
        Promise { state: PromiseState::Settled { at: Timestamp::from_millis(7), settlement }, ..made("p1") },
        Promise { deadline_at: Some(Timestamp::from_millis(6)), state: PromiseState::TimedOut, ..made("p3") },
    ];
    assert_eq!(promises, expected, "made when their run was");

    let id = Name::new("id", "d1").unwrap();
    assert_eq!(store.find_item(CatalogKind::Definition, &id).await.unwrap().unwrap().version.get(), 2);
    for kind in [CatalogKind::Source, CatalogKind::Subscription, CatalogKind::EntityWorkflow] {
        let put = PutCatalogItem {
            workspace: workspace(),
            kind,
            id: Name::new("id", kind.as_str()).unwrap(),
            name: "stripe".into(),
            body: Payload::null(),
            expected: None,
            note: None,
        };
        assert!(matches!(store.put_item(put).await.unwrap(), PutOutcome::Put(_)));
    }

    let held = start(&store, granted(facts(2))).await;
    let mut write = CommitBuilder::new(&held, store.now());
    let own = PromiseId::for_step(held.id(), held.generation, &hapax_engine::model::StepId::from_stored("p"));
    let keyed = PromiseKey { key: key("k"), keep_for: Duration::from_secs(1) };
    write.open_promise(Promise { key: Some(keyed), ..Promise::pending(own, held.id(), store.now(), None) });
    write.wait(None, 0).unwrap();
    assert!(matches!(
        store.commit_run(write.finish()).await.unwrap(),
        CommitOutcome::Committed { opened, .. } if opened.is_empty()
    ));
    assert_eq!(store.list_keys(None).await.unwrap().len(), 2);
}

/// A new file and a migrated one have the same tables.
#[tokio::test]
async fn a_file_that_was_brought_up_to_date_has_the_tables_of_a_new_one() {
    let schema = |place: &TestFolder| {
        let file = Connection::open(place.file()).unwrap();
        let mut list = file.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").unwrap();
        let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect::<Vec<(String, String, Option<String>)>>()
    };
    let (new, old) = (TestFolder::new(), TestFolder::new());
    new.open().await.close().await.unwrap();
    file_of_version(&old, 2).execute_batch(ROWS).unwrap();
    assert_eq!(find_schema(&old.file()).unwrap().pending.len(), 8);
    old.open().await.close().await.unwrap();
    assert!(find_schema(&old.file()).unwrap().pending.is_empty());
    assert_eq!(schema(&new), schema(&old));
    let left: Vec<_> = schema(&old).into_iter().filter(|(_, name, _)| name.contains("before")).collect();
    assert!(left.is_empty(), "{left:?}");
}
