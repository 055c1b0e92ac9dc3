//! Every way an opening can go wrong has its own answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hapax_engine::store::{Store, StoreError};
use hapax_store_sqlite::{OpenError, SqliteOptions, SqliteStore};
use rusqlite::Connection;

use crate::fixture::*;

async fn refused(path: &Path) -> OpenError {
    SqliteStore::open(path, SqliteOptions::default()).await.expect_err("it cannot be opened")
}

#[tokio::test]
async fn a_missing_folder_is_named_and_not_made() {
    let place = TestFolder::new();
    let folder = place.folder.path().join("no").join("such");
    let error = refused(&folder.join("orders.db")).await;
    assert!(matches!(&error, OpenError::NoFolder { folder: missing } if *missing == folder), "{error:?}");
    assert!(!folder.exists());
    assert!(error.to_string().contains("create it"), "{error}");
}

#[tokio::test]
async fn a_folder_is_not_a_file() {
    let place = TestFolder::new();
    let error = refused(place.folder.path()).await;
    assert!(matches!(error, OpenError::IsFolder { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let place = TestFolder::new();
    let text = "orders,customers\n".repeat(500);
    fs::write(place.file(), &text).unwrap();
    let error = refused(&place.file()).await;
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(place.file()).unwrap(), text);
}

#[tokio::test]
async fn the_database_of_another_program_is_left_alone() {
    let place = TestFolder::new();
    let foreign = Connection::open(place.file()).unwrap();
    foreign.execute_batch("CREATE TABLE customers (name TEXT); PRAGMA user_version = 7;").unwrap();
    drop(foreign);
    let before = fs::read(place.file()).unwrap();
    let error = refused(&place.file()).await;
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

/// Invariant 62: a program that is too old refuses to touch a newer schema.
#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let place = TestFolder::new();
    place.open().await.close().await.unwrap();
    Connection::open(place.file()).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refused(&place.file()).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    let look = SqliteStore::open(place.file(), place.options().read_only(true)).await.unwrap_err();
    assert!(matches!(look, OpenError::Newer { found: 99, .. }), "{look:?}");
}

#[tokio::test]
async fn a_truncated_file_is_called_damaged() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..200 {
        start(&store, with_key(id, &format!("key-{id}"), "x")).await;
    }
    store.close().await.unwrap();
    drop(store);
    let file = fs::File::options().write(true).open(place.file()).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = refused(&place.file()).await;
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_page_of_rubbish_breaks_what_touches_it_and_nothing_panics() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..200 {
        start(&store, granted(facts(id))).await;
    }
    store.close().await.unwrap();
    drop(store);
    let mut bytes = fs::read(place.file()).unwrap();
    let first_pages = 4096 * 2;
    bytes[first_pages..].fill(0xA5);
    fs::write(place.file(), bytes).unwrap();
    // The damage may show at any point, but the error must say that it is damage.
    match SqliteStore::open(place.file(), place.options()).await {
        Err(error) => assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}"),
        Ok(store) => {
            let error = store.start_run(new_run(facts(500))).await.unwrap_err();
            assert!(matches!(error, StoreError::Broken(_)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_told_as_that() {
    // Not even root can make a file here.
    let error = refused(Path::new("/sys/hapax-test.db")).await;
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_without_write_permission_is_told_as_that() {
    let place = TestFolder::new();
    place.open().await.close().await.unwrap();
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o400)).unwrap();
    match fs::File::options().append(true).open(place.file()) {
        Ok(_) => eprintln!("not tested: whoever runs this may write any file"),
        Err(_) => {
            let error = refused(&place.file()).await;
            assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
        }
    }
}

#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    for end in ["", "-wal", "-shm", "-owner"] {
        let file = place.folder.path().join(format!("orders.db{end}"));
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn looking_at_a_file_that_is_not_there_makes_none() {
    let place = TestFolder::new();
    let error = SqliteStore::open(place.file(), place.options().read_only(true)).await.unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error:?}");
    assert!(!place.file().exists());
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let place = TestFolder::new();
    fs::write(place.file(), "").unwrap();
    let look = SqliteStore::open(place.file(), place.options().read_only(true)).await.unwrap_err();
    assert!(matches!(look, OpenError::Older { found: 0, .. }), "{look:?}");
    start(&place.open().await, new_run(facts(1))).await;
}
