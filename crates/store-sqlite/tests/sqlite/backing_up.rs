//! Copies of a file in use are whole, and a backup replaces a file only when nothing is wrong with it.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hapax_engine::fsck::fsck;
use hapax_engine::model::RunId;
use hapax_engine::store::Store;
use hapax_store_sqlite::{BackupError, OpenError, Progress, Restoring, SqliteStore, back_up};

use crate::fixture::*;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn has_run(place: &TestFolder, file: &Path, id: u128) -> bool {
    let store = SqliteStore::open(file, place.options()).await.unwrap();
    let found = store.find_run(&workspace(), RunId::from_u128(id)).await.unwrap().is_some();
    store.close().await.unwrap();
    found
}

/// Each run is started, moved on and closed in commits of its own; a copy that mixed two moments would break an invariant.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_file_that_is_written_to_is_as_of_one_moment() {
    let place = TestFolder::new();
    let store = Arc::new(place.open().await);
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writer = tokio::spawn({
        let (store, stop, written) = (store.clone(), stop.clone(), written.clone());
        async move {
            for id in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let head = start(&store, granted(facts(id))).await;
                advance(&store, one_step(&store, &head, "a")).await;
                written.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    for number in 0..5 {
        let before = written.load(Ordering::SeqCst);
        let (from, to) = (place.file(), place.folder.path().join(format!("backup-{number}.db")));
        let target = to.clone();
        let mut told = 0;
        let copied = tokio::task::spawn_blocking(move || {
            let mut last = Progress { done: 0, total: 0 };
            let copied = back_up(&from, &target, &mut |progress| {
                told += 1;
                last = progress;
                ControlFlow::Continue(())
            });
            assert!(told > 0 && last.done == last.total, "{last:?}");
            copied
        });
        let copied = copied.await.unwrap().unwrap();
        let after = written.load(Ordering::SeqCst) + 1;
        assert_eq!(copied.bytes, fs::metadata(&to).unwrap().len());
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        let copy = SqliteStore::open(&to, place.options().read_only(true)).await.unwrap();
        let report = fsck(&copy).await.unwrap();
        assert!(report.is_clean(), "{report}");
        assert!((before..=after).contains(&report.runs), "{before} <= {} <= {after}", report.runs);
        copy.close().await.unwrap();
        while written.load(Ordering::SeqCst) < after + 20 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    let report = fsck(&*store).await.unwrap();
    assert!(report.is_clean() && report.runs == written.load(Ordering::SeqCst), "{report}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_is_there_is_never_overwritten_and_a_failure_leaves_nothing() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("backup.db");
    fs::write(&to, "mine").unwrap();
    let error = back_up(&place.file(), &to, &mut go_on).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&to).unwrap(), b"mine");
    let other = folder.path().join("other.db");
    let broken_off = back_up(&place.file(), &other, &mut |_| ControlFlow::Break(()));
    assert!(matches!(broken_off, Err(BackupError::BrokenOff)));
    let missing = back_up(&folder.path().join("missing.db"), &other, &mut go_on).unwrap_err();
    assert!(matches!(missing, BackupError::Open(OpenError::Missing { .. })), "{missing}");
    let nowhere = back_up(&place.file(), &folder.path().join("no/backup.db"), &mut go_on).unwrap_err();
    assert!(matches!(nowhere, BackupError::Open(OpenError::NoFolder { .. })), "{nowhere}");
    let foreign = back_up(&to, &other, &mut go_on).unwrap_err();
    assert!(matches!(foreign, BackupError::Open(OpenError::NotADatabase { .. })), "{foreign}");
    assert_eq!(names(folder.path()), ["backup.db"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_backup_replaces_a_file_only_if_that_is_meant_and_nobody_uses_it() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    let backup = place.folder.path().join("backup.db");
    back_up(&place.file(), &backup, &mut go_on).unwrap();
    start(&store, new_run(facts(2))).await;
    let begin = |replace| Restoring::begin(&backup, &place.file(), replace, store.now(), &mut go_on);
    assert!(matches!(begin(false), Err(BackupError::Exists { .. })));
    let error = begin(true).unwrap_err();
    assert!(matches!(error, BackupError::Open(OpenError::Owned { .. })), "{error}");
    store.close().await.unwrap();
    drop(store);

    let now = hapax_engine::model::Timestamp::from_millis(7);
    // Dropped half way, it leaves everything as it was.
    drop(Restoring::begin(&backup, &place.file(), true, now, &mut go_on).unwrap());
    assert!(has_run(&place, &place.file(), 2).await);
    let restoring = Restoring::begin(&backup, &place.file(), true, now, &mut go_on).unwrap();
    assert!(restoring.path().exists());
    let kept = restoring.finish().unwrap().expect("there was one before");
    assert!(has_run(&place, &place.file(), 1).await && !has_run(&place, &place.file(), 2).await);
    assert!(has_run(&place, &kept, 2).await, "what was there before is kept");
    let left: Vec<_> = names(place.folder.path());
    assert!(left.iter().all(|name| !name.contains("restoring") && !name.contains("unfinished")), "{left:?}");
}

/// A server that was killed leaves a log beside its file. Found beside the restored one it would be taken for its own.
#[tokio::test]
async fn the_log_of_the_file_before_is_not_taken_for_that_of_the_restored_one() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    let backup = place.folder.path().join("backup.db");
    back_up(&place.file(), &backup, &mut go_on).unwrap();
    start(&store, new_run(facts(2))).await;
    // As a kill would leave it.
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("orders.db");
    fs::copy(place.file(), &target).unwrap();
    fs::copy(place.folder.path().join("orders.db-wal"), folder.path().join("orders.db-wal")).unwrap();
    let now = store.now();
    let kept = Restoring::begin(&backup, &target, true, now, &mut go_on).unwrap().finish().unwrap().unwrap();
    assert!(has_run(&place, &target, 1).await && !has_run(&place, &target, 2).await);
    assert!(has_run(&place, &kept, 2).await, "with what lay in its log");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_backup_is_not_restored() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..=200 {
        let head = start(&store, granted(facts(id))).await;
        advance(&store, one_step_with_effects(&store, &head, "a")).await;
    }
    let backup = place.folder.path().join("backup.db");
    back_up(&place.file(), &backup, &mut go_on).unwrap();
    store.close().await.unwrap();
    drop(store);
    let whole = fs::read(&backup).unwrap();
    let now = hapax_engine::model::Timestamp::from_millis(7);
    // Pages in the middle that are blank, and a file that is cut off.
    let mut blank = whole.clone();
    let middle = whole.len() / 2 / 4096 * 4096;
    blank[middle..middle + 40_960].fill(0);
    for broken in [&blank[..], &whole[..whole.len() / 2]] {
        fs::write(&backup, broken).unwrap();
        let error = Restoring::begin(&backup, &place.file(), true, now, &mut go_on).unwrap_err();
        let is_told =
            matches!(error, BackupError::Damaged { .. } | BackupError::Open(OpenError::Corrupt { .. }));
        assert!(is_told, "{error}");
        assert!(has_run(&place, &place.file(), 200).await, "the store is as it was");
    }
}
