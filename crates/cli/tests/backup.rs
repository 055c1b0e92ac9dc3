//! `hapax backup` and `hapax restore`, through the command itself, on a store that a server works on.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use support::dev::{Dev, hapax};

fn run(arguments: &[&str]) -> Output {
    hapax().args(arguments).output().expect("it can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn url(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

/// What came before the backup is in it, whole, however much is written meanwhile.
#[test]
fn a_backup_of_a_running_server_holds_all_that_was_acknowledged_before_it() {
    let folder = Rc::new(tempfile::tempdir().unwrap());
    let dev = Dev::start_in(folder.clone());
    let store = folder.path().join("data/hapax.db");
    let backups: Vec<_> = (0..3).map(|at| folder.path().join(format!("backup-{at}.db"))).collect();
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU32::new(0));
    let (server, key, sample) = (dev.told("url"), dev.told("apiKey"), dev.told("sampleDefinition"));
    let before: Vec<(usize, u32)> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let order = acknowledged.load(Ordering::Relaxed);
                let started = hapax()
                    .args(["runs", "start", &sample, "--key", &format!("order-{order}"), "--server", &server])
                    .env("HAPAX_API_KEY", &key)
                    .output()
                    .unwrap();
                assert!(started.status.success(), "{}", text(&started.stderr));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        });
        let taken = backups.iter().map(|backup| {
            let seen = acknowledged.load(Ordering::Relaxed);
            while acknowledged.load(Ordering::Relaxed) < seen + 2 {
                std::thread::yield_now();
            }
            let acknowledged = acknowledged.load(Ordering::Relaxed);
            let done = run(&["backup", "--store", &url(&store), backup.to_str().unwrap(), "--json"]);
            assert!(done.status.success(), "{}", text(&done.stderr));
            let told: Value = serde_json::from_slice(&done.stdout).unwrap();
            assert_eq!(told["violations"], json!(0), "{told}");
            let mode = fs::metadata(backup).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "for its owner alone");
            (told["runs"].as_u64().unwrap() as usize, acknowledged)
        });
        let taken = taken.collect();
        is_over.store(true, Ordering::Relaxed);
        taken
    });
    for (runs, acknowledged) in &before {
        assert!(*runs >= *acknowledged as usize, "{runs} of {acknowledged}: {before:?}");
    }
    drop(dev);
    for (backup, (_, acknowledged)) in backups.iter().zip(before) {
        // Nothing was left beside it.
        let beside: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(beside.iter().all(|name| !name.to_string_lossy().contains("unfinished")), "{beside:?}");
        let again = Rc::new(tempfile::tempdir().unwrap());
        fs::create_dir(again.path().join("data")).unwrap();
        fs::copy(folder.path().join("data/api-key"), again.path().join("data/api-key")).unwrap();
        let place = again.path().join("data/hapax.db");
        let restored = run(&["restore", backup.to_str().unwrap(), "--store", &url(&place)]);
        assert!(restored.status.success(), "{}", text(&restored.stderr));
        let checked = run(&["fsck", "--store", &url(&place)]);
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        // The last order before the backup is known under its key, and is not started again.
        let dev = Dev::start_in(again);
        let last = hapax()
            .args(["runs", "start", &sample, "--key", &format!("order-{}", acknowledged - 1), "-o", "json"])
            .args(["--server", &dev.told("url")])
            .env("HAPAX_API_KEY", &key)
            .output()
            .unwrap();
        let told: Value =
            serde_json::from_slice(&last.stdout).unwrap_or_else(|_| panic!("{}", text(&last.stderr)));
        assert_eq!(told["created"], json!(false), "{told}");
    }
}

#[test]
fn a_backup_and_a_restore_take_nobodys_place() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = (folder.path().join("orders.db"), folder.path().join("orders.backup"));
    assert!(run(&["migrate", "--store", &url(&store)]).status.success());
    assert!(run(&["backup", "--store", &url(&store), backup.to_str().unwrap()]).status.success());
    let before = fs::read(&backup).unwrap();

    let again = run(&["backup", "--store", &url(&store), backup.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is there already"), "{}", text(&again.stderr));
    assert_eq!(fs::read(&backup).unwrap(), before, "it is left as it is");

    let over = run(&["restore", backup.to_str().unwrap(), "--store", &url(&store)]);
    assert_eq!(over.status.code(), Some(1));
    assert!(text(&over.stderr).contains("is there already"), "{}", text(&over.stderr));

    // A log that another file left behind would be taken for part of the restored one.
    let elsewhere = folder.path().join("elsewhere.db");
    fs::write(folder.path().join("elsewhere.db-wal"), "left over").unwrap();
    let beside = run(&["restore", backup.to_str().unwrap(), "--store", &url(&elsewhere)]);
    assert_eq!(beside.status.code(), Some(1));
    assert!(text(&beside.stderr).contains("elsewhere.db-wal"), "{}", text(&beside.stderr));
    assert!(!elsewhere.exists());
}

#[test]
fn what_is_no_store_is_neither_backed_up_nor_restored() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new.db");
    let garbage = folder.path().join("garbage");
    fs::write(&garbage, "no database, and longer than the header of one would have to be: ".repeat(40))
        .unwrap();
    let missing = folder.path().join("missing.db");
    for from in [&garbage, &missing] {
        let restored = run(&["restore", from.to_str().unwrap(), "--store", &url(&place)]);
        assert_eq!(restored.status.code(), Some(1), "{}", text(&restored.stderr));
        let saved = run(&["backup", "--store", &url(from), place.to_str().unwrap()]);
        assert_eq!(saved.status.code(), Some(1), "{}", text(&saved.stderr));
        assert!(!place.exists());
    }
    let postgres = run(&["backup", "--store", "postgres://localhost/orders", place.to_str().unwrap()]);
    assert!(text(&postgres.stderr).contains("pg_dump"), "{}", text(&postgres.stderr));
}

/// A page that a bad disk changed.
#[test]
fn a_damaged_backup_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = (folder.path().join("orders.db"), folder.path().join("orders.backup"));
    assert!(run(&["migrate", "--store", &url(&store)]).status.success());
    assert!(run(&["backup", "--store", &url(&store), backup.to_str().unwrap()]).status.success());
    let mut bytes = fs::read(&backup).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 512].fill(0xff);
    fs::write(&backup, bytes).unwrap();
    let place = folder.path().join("new.db");
    let restored = run(&["restore", backup.to_str().unwrap(), "--store", &url(&place)]);
    assert_eq!(restored.status.code(), Some(1), "{}", text(&restored.stderr));
    assert!(!place.exists(), "{}", text(&restored.stderr));
}

#[test]
fn health_asks_without_a_key() {
    let dev = Dev::start();
    for further in [&[][..], &["--ready"]] {
        let asked = hapax().args(["health", "--server", &dev.told("url")]).args(further).output().unwrap();
        assert!(asked.status.success(), "{}", text(&asked.stderr));
    }
    let url = dev.told("url");
    drop(dev);
    let asked = run(&["health", "--server", &url]);
    assert_eq!(asked.status.code(), Some(3), "{}", text(&asked.stderr));
}
