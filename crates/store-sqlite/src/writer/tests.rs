//! Batches with failures.

use hapax_engine::clock::ManualClock;
use hapax_engine::model::{Name, WorkspaceId};
use hapax_engine::store::StoreResult;
use tempfile::TempDir;

use super::*;
use crate::connect::{Pages, open_for_reading};
use crate::job::{Job, Verb};
use crate::open::open;
use crate::session::{WorkflowRowId, WorkspaceRowId};
use crate::writer_thread::{Message, spawn};

/// Gives a workspace its number: the smallest write there is.
struct Number(&'static str);

impl Verb for Number {
    type Outcome = WorkspaceRowId;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<WorkspaceRowId, Fault> {
        session.number_workspace(&WorkspaceId::new(self.0).unwrap())
    }
}

/// InternedNames a workflow, and then breaks a rule of a table.
struct FailingWrite(&'static str);

impl Verb for FailingWrite {
    type Outcome = WorkflowRowId;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<WorkflowRowId, Fault> {
        let number = session.number_workflow(&Name::new("workflow", self.0).unwrap())?;
        session.connection().execute("UPDATE hapax_workflows SET name = NULL", [])?;
        Ok(number)
    }
}

struct Panicking;

impl Verb for Panicking {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        session.connection().execute("INSERT INTO hapax_workflows (name) VALUES ('half')", [])?;
        panic!("a fault of the store");
    }
}

struct Refusing;

impl Verb for Refusing {
    type Outcome = ();

    fn apply(&self, _: &mut Session<'_, '_>) -> Result<(), Fault> {
        Err(Fault::Refused("never".into()))
    }
}

struct Bench {
    writer: Writer,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let opened = open(&folder.path().join("test.db"), false, Timestamp::EPOCH).unwrap();
        Bench { writer: Writer::new(opened, Arc::new(ManualClock::default())).unwrap(), folder }
    }

    fn write<V: Verb>(&mut self, request: V) -> StoreResult<V::Outcome> {
        let (task, mut told) = Job::with_reply(request);
        self.writer.write_batch(&mut vec![task]);
        told.try_recv().unwrap()
    }

    fn execute(&self, sql: &str) {
        self.writer.connection.as_ref().unwrap().execute_batch(sql).unwrap();
    }

    /// Rows, as another connection sees them.
    fn names(&self) -> Vec<String> {
        let reader = open_for_reading(&self.folder.path().join("test.db"), Pages::Copied).unwrap();
        let mut list = reader
            .prepare("SELECT name FROM hapax_workspaces UNION SELECT name FROM hapax_workflows")
            .unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

#[test]
fn a_batch_is_one_commit_and_each_caller_hears_its_own_outcome() {
    let mut bench = Bench::new();
    let (first, mut heard_first) = Job::with_reply(Number("a"));
    let (second, mut heard_second) = Job::with_reply(Number("b"));
    let (refused, mut heard_refused) = Job::with_reply(Refusing);
    bench.writer.write_batch(&mut vec![first, refused, second]);
    let (first, second) = (heard_first.try_recv().unwrap(), heard_second.try_recv().unwrap());
    assert_ne!(first.unwrap(), second.unwrap());
    assert!(matches!(heard_refused.try_recv().unwrap(), Err(StoreError::Refused(why)) if why == "never"));
    assert_eq!(bench.names(), ["a", "b"]);
}

#[test]
fn a_poison_operation_fails_alone() {
    let mut bench = Bench::new();
    let (first, mut heard_first) = Job::with_reply(Number("a"));
    let (poison, mut heard_poison) = Job::with_reply(FailingWrite("half"));
    let (second, mut heard_second) = Job::with_reply(Number("b"));
    bench.writer.write_batch(&mut vec![first, poison, second]);
    heard_first.try_recv().unwrap().unwrap();
    heard_second.try_recv().unwrap().unwrap();
    assert!(matches!(heard_poison.try_recv().unwrap(), Err(StoreError::Refused(_))));
    assert_eq!(bench.names(), ["a", "b"], "nothing of the poison one is there");
}

#[test]
fn a_panic_fails_alone_and_the_writer_lives_on() {
    let mut bench = Bench::new();
    let (first, mut heard_first) = Job::with_reply(Number("a"));
    let (panicking, mut heard_panic) = Job::with_reply(Panicking);
    bench.writer.write_batch(&mut vec![panicking, first]);
    assert!(matches!(heard_panic.try_recv().unwrap(), Err(StoreError::Broken(_))));
    heard_first.try_recv().unwrap().unwrap();
    bench.write(Number("b")).unwrap();
    assert_eq!(bench.names(), ["a", "b"]);
}

#[test]
fn a_number_that_was_rolled_back_is_not_remembered() {
    let mut bench = Bench::new();
    assert!(bench.write(FailingWrite("order")).is_err());
    let name = Name::new("workflow", "order").unwrap();
    assert_eq!(find_numbered(&mut bench, &name), None);
}

fn find_numbered(bench: &mut Bench, name: &Name) -> Option<WorkflowRowId> {
    let Writer { connection, interned_names, .. } = &mut bench.writer;
    let statements = Statements::new(connection.as_ref().unwrap());
    let mut session = Session::new(&statements, interned_names, Timestamp::EPOCH);
    session.find_workflow(name).unwrap()
}

/// Fault 24: acknowledged writes stay, others fail with an error, and writing continues once there
/// is room.
#[test]
fn a_full_disk_refuses_what_does_not_fit_and_loses_nothing() {
    struct FillPages(usize);
    impl Verb for FillPages {
        type Outcome = ();

        fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
            let (name, kib) = (format!("fill-{:04}", self.0), "x".repeat(1024));
            session
                .connection()
                .execute("INSERT INTO hapax_workflows (name) VALUES (?1 || ?2)", [name, kib])?;
            Ok(())
        }
    }
    let mut bench = Bench::new();
    // Each table and index has a page, so an empty file grows with every migration.
    let empty: i64 = bench
        .writer
        .connection
        .as_ref()
        .unwrap()
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    bench.execute(&format!("PRAGMA max_page_count = {}", empty + 20));
    let mut batch = Vec::new();
    let mut heard = Vec::new();
    for n in 0..200 {
        let (task, told) = Job::with_reply(FillPages(n));
        batch.push(task);
        heard.push(told);
    }
    bench.writer.write_batch(&mut batch);
    let mut written = 0;
    for told in &mut heard {
        match told.try_recv().unwrap() {
            Ok(()) => written += 1,
            Err(StoreError::Unavailable(why)) => assert!(why.contains("free some disk space"), "{why}"),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!((1..200).contains(&written), "some fitted and some did not: {written}");
    assert_eq!(bench.names().len(), written);
    bench.execute("PRAGMA max_page_count = 100000");
    bench.write(FillPages(200)).unwrap();
    assert_eq!(bench.names().len(), written + 1);
}

#[test]
fn a_connection_that_is_distrusted_is_opened_again() {
    let mut bench = Bench::new();
    bench.write(Number("a")).unwrap();
    bench.writer.connection = None;
    bench.write(Number("b")).unwrap();
    assert_eq!(bench.names(), ["a", "b"]);
}

#[test]
fn a_failed_commit_is_told_by_what_is_known_about_it() {
    let failure = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
    for code in [rusqlite::ffi::SQLITE_IOERR, rusqlite::ffi::SQLITE_IOERR_FSYNC] {
        assert!(matches!(commit_failed(&failure(code)), StoreError::Unknown(_)));
        assert!(needs_new_connection(failure(code).sqlite_error_code()));
    }
    for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_BUSY] {
        assert!(matches!(commit_failed(&failure(code)), StoreError::Unavailable(_)));
    }
    assert!(matches!(commit_failed(&failure(rusqlite::ffi::SQLITE_CORRUPT)), StoreError::Broken(_)));
}

/// Writes six hundred pages, all different from the previous number's pages.
struct RewritePages(u8);

impl Verb for RewritePages {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        let text = char::from(b'a' + self.0 % 26).to_string().repeat(12_000);
        let mut insert = session.prepare("INSERT OR REPLACE INTO hapax_run_results VALUES (1, ?1, 4, ?2)")?;
        for id in 0..200u8 {
            insert.execute(rusqlite::params![[id], text])?;
        }
        Ok(())
    }
}

#[test]
fn the_log_is_emptied_while_the_writer_works() {
    let folder = TempDir::new().unwrap();
    let opened = open(&folder.path().join("test.db"), false, Timestamp::EPOCH).unwrap();
    let writer = Writer::new(opened, Arc::new(ManualClock::default())).unwrap();
    let (inbox, _, thread) = spawn(writer).unwrap();
    for n in 0..30 {
        let (task, told) = Job::with_reply(RewritePages(n));
        assert!(inbox.blocking_send(Message::Task(task)).is_ok());
        told.blocking_recv().unwrap().unwrap();
    }
    let log = std::fs::metadata(folder.path().join("test.db-wal")).unwrap().len();
    let written = 30 * 600 * 4096;
    assert!(log < written / 2, "{log} bytes of log after {written} bytes of pages");
    drop(inbox);
    thread.join().unwrap();
}

/// Fault 31: a log that cannot be emptied grows, is copied as far as possible, and is emptied once that is possible.
#[test]
fn a_long_read_does_not_keep_the_log_from_being_emptied_afterwards() {
    let mut bench = Bench::new();
    let frames = |bench: &Bench| log_frames(bench.writer.connection.as_ref().unwrap()).unwrap();
    let reader = open_for_reading(&bench.folder.path().join("test.db"), Pages::Copied).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM hapax_workflows;").unwrap();
    for n in 0..10 {
        bench.write(RewritePages(n)).unwrap();
        bench.writer.checkpoint();
    }
    let starved = frames(&bench);
    assert!(starved > CHECKPOINT_FRAMES, "{starved}");
    reader.execute_batch("COMMIT").unwrap();
    for n in 0..2 {
        bench.write(RewritePages(n)).unwrap();
        bench.writer.checkpoint();
    }
    assert!(frames(&bench) < CHECKPOINT_FRAMES, "{}", frames(&bench));
}
