//! The one thread that writes. It takes everything that waits into one transaction, commits once, and then tells each
//! caller its own outcome.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use hapax_engine::clock::Clock;
use hapax_engine::model::Timestamp;
use hapax_engine::store::StoreError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::connect::{open_for_writing, set_up_writer};
use crate::fault::{Fault, commit_failed, needs_new_connection, rolled_back};
use crate::file_identity::FileIdentity;
use crate::job::Task;
use crate::limits::{CHECKPOINT_FRAMES, LINGER, MAX_BATCH, MAX_QUEUED, STARVED_FRAMES};
use crate::open::Opened;
use crate::owner_lock::OwnerLock;
use crate::session::{Numbers, Session};
use crate::statements::Statements;
use crate::store::breathe;

/// What reaches the writer.
pub(crate) enum Message {
    /// An operation.
    Task(Box<dyn Task>),
    /// Write what waits, let go of the file, and say so.
    Close(oneshot::Sender<()>),
}

struct Writer {
    path: PathBuf,
    identity: FileIdentity,
    clock: Arc<dyn Clock>,
    numbers: Numbers,
    /// `None` after an error that the connection must not outlive.
    connection: Option<Connection>,
    is_starved: bool,
    /// Did the disk have no room for the last batch?
    is_full: bool,
    _lock: OwnerLock,
}

/// Why a transaction did not commit.
enum Trouble {
    /// It could not begin.
    NotBegun(StoreError),
    /// The operation at this place failed; all was rolled back.
    Operation { at: usize, fault: Fault },
    /// COMMIT itself failed.
    Commit(StoreError),
}

impl Trouble {
    /// What callers are told.
    fn told(self) -> StoreError {
        match self {
            Trouble::NotBegun(error) | Trouble::Commit(error) => error,
            Trouble::Operation { fault, .. } => fault.into_store_error(),
        }
    }
}

/// Starts the thread.
pub(crate) fn spawn(
    opened: Opened,
    clock: Arc<dyn Clock>,
) -> std::io::Result<(mpsc::Sender<Message>, JoinHandle<()>)> {
    let mut writer = Writer::new(opened, clock)?;
    let (sender, inbox) = mpsc::channel(MAX_QUEUED);
    let thread = std::thread::Builder::new().name("hapax-sqlite-writer".into()).spawn(move || {
        let closers = writer.run(inbox);
        // The file is free before anybody is told so.
        drop(writer);
        for closed in closers {
            let _ = closed.send(());
        }
    })?;
    Ok((sender, thread))
}

/// Takes everything that waits, or waits for something; false when nobody can send any more.
///
/// A run that goes step by step sends its next write as soon as it hears of the last one. To be woken for it would take
/// about as long as to commit it, so after an operation that was alone the writer lingers a moment before it sleeps.
///
/// Where many send, those who were just told of the last commit are about to send their next write: if fewer wait than went into
/// that commit, the others get the core for a moment, so that one flush of the disk serves more of them.
fn receive(inbox: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>, last: usize) -> bool {
    let lingering = Instant::now();
    while last == 1 && lingering.elapsed() < LINGER {
        if let Ok(message) = inbox.try_recv() {
            messages.push(message);
            take_waiting(inbox, messages);
            return true;
        }
        breathe();
    }
    if inbox.blocking_recv_many(messages, MAX_BATCH) == 0 {
        return false;
    }
    if messages.len() < last {
        std::thread::yield_now();
        take_waiting(inbox, messages);
    }
    true
}

/// Takes what waits already.
fn take_waiting(inbox: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>) {
    while messages.len() < MAX_BATCH
        && let Ok(message) = inbox.try_recv()
    {
        messages.push(message);
    }
}

impl Writer {
    fn new(opened: Opened, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let Opened { path, writer, lock } = opened;
        let identity = FileIdentity::of(&path)?;
        let (numbers, connection) = (Numbers::default(), Some(writer));
        let (is_starved, is_full) = (false, false);
        Ok(Writer { path, identity, clock, numbers, connection, is_starved, is_full, _lock: lock })
    }

    /// Works until nobody can send any more; answers with those who wait for that.
    fn run(&mut self, mut inbox: mpsc::Receiver<Message>) -> Vec<oneshot::Sender<()>> {
        let mut messages = Vec::with_capacity(MAX_BATCH);
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let mut closers = Vec::new();
        let mut last = 0;
        while receive(&mut inbox, &mut messages, last) {
            last = messages.len();
            for message in messages.drain(..) {
                match message {
                    Message::Task(task) => batch.push(task),
                    Message::Close(closed) => {
                        inbox.close();
                        closers.push(closed);
                    }
                }
            }
            self.write_batch(&mut batch);
            self.checkpoint();
        }
        closers
    }

    /// Commits all together. An operation that cannot be carried out is taken out of the batch and tried alone, after
    /// those before it and before those after it.
    fn write_batch(&mut self, batch: &mut Vec<Box<dyn Task>>) {
        let mut made_room = false;
        while !batch.is_empty() {
            match self.commit(batch) {
                Ok(()) => batch.drain(..).for_each(Task::acknowledge),
                Err(_) if self.is_full && !made_room => {
                    self.checkpoint();
                    made_room = true;
                }
                Err(Trouble::Operation { at, .. }) if batch.len() > 1 => {
                    let mut before: Vec<_> = batch.drain(..at).collect();
                    self.write_batch(&mut before);
                    let mut alone: Vec<_> = batch.drain(..1).collect();
                    self.write_batch(&mut alone);
                }
                Err(trouble) => {
                    let error = trouble.told();
                    batch.drain(..).for_each(|task| task.fail(error.clone()));
                }
            }
        }
    }

    /// One transaction. Unless it answers `Ok`, nothing of it is there, or nobody knows (as the error says).
    fn commit(&mut self, batch: &mut [Box<dyn Task>]) -> Result<(), Trouble> {
        self.identity.check(&self.path).map_err(Trouble::NotBegun)?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => reopen(&self.path).map_err(|error| Trouble::NotBegun(rolled_back(&error)))?,
        };
        // Read after the batch was taken, so that no operation is judged by an instant before it was sent.
        let now = self.clock.now();
        let outcome = transact(&connection, &mut self.numbers, now, batch);
        let Err((trouble, code)) = outcome else {
            self.connection = Some(connection);
            return Ok(());
        };
        self.numbers.forget();
        self.is_full |= code == Some(ErrorCode::DiskFull);
        let rolled_back = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if rolled_back && !needs_new_connection(code) {
            self.connection = Some(connection);
        }
        Err(trouble)
    }

    /// Copies the log into the file once it is long enough. Not part of any caller's wait but the next one's.
    fn checkpoint(&mut self) {
        let Some(connection) = &self.connection else { return };
        // On a full disk the log may be what cannot grow; emptied, it is written from its beginning again.
        let is_full = std::mem::take(&mut self.is_full);
        let frames = match log_frames(connection) {
            Ok(frames) if frames < CHECKPOINT_FRAMES && !is_full => return,
            Ok(frames) => frames,
            Err(error) => return tracing::warn!(%error, "the length of the log is not known"),
        };
        // An error leaves the log as it is, and the next batch tries again.
        if let Err(error) = connection.query_row(include_str!("../sql/checkpoint.sql"), [], |_| Ok(())) {
            tracing::warn!(%error, "the log was not copied into the file");
        }
        let starved = frames > STARVED_FRAMES;
        if starved && !self.is_starved {
            tracing::warn!(frames, "the log grows: a reader keeps it from being emptied");
        }
        self.is_starved = starved;
    }
}

/// Runs the batch in one transaction; an error comes with what SQLite called it.
fn transact(
    connection: &Connection,
    numbers: &mut Numbers,
    now: Timestamp,
    batch: &mut [Box<dyn Task>],
) -> Result<(), (Trouble, Option<ErrorCode>)> {
    execute(connection, "BEGIN IMMEDIATE")
        .map_err(|error| (Trouble::NotBegun(rolled_back(&error)), error.sqlite_error_code()))?;
    let statements = Statements::new(connection);
    let mut session = Session::new(&statements, numbers, now);
    for (at, task) in batch.iter_mut().enumerate() {
        task.apply(&mut session).map_err(|fault| {
            let code = fault.code();
            (Trouble::Operation { at, fault }, code)
        })?;
    }
    execute(connection, "COMMIT")
        .map_err(|error| (Trouble::Commit(commit_failed(&error)), error.sqlite_error_code()))
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn reopen(path: &Path) -> rusqlite::Result<Connection> {
    tracing::warn!(path = %path.display(), "opening the file again after an error");
    let mut connection = open_for_writing(path)?;
    set_up_writer(&mut connection)?;
    Ok(connection)
}

/// How many frames the log holds.
fn log_frames(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(include_str!("../sql/measure_log.sql"))?.query_row([], |row| row.get(1))
}

#[cfg(test)]
mod tests;
