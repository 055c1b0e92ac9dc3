//! The writer: its connection, and what it knows about the file. Each batch goes into one
//! transaction and is committed once; then each caller gets its own outcome.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_engine::clock::Clock;
use hapax_engine::model::Timestamp;
use hapax_engine::store::StoreError;
use rusqlite::{Connection, ErrorCode};

use crate::connect::{open_for_writing, set_up_writer};
use crate::fault::{Fault, commit_failed, needs_new_connection, rolled_back};
use crate::file_identity::FileIdentity;
use crate::job::Task;
use crate::limits::{CHECKPOINT_FRAMES, LOOK_AT_LOG_EVERY, QUICK_COMMIT, STARVED_FRAMES};
use crate::open::Opened;
use crate::owner_lock::OwnerLock;
use crate::session::{InternedNames, Session};
use crate::statements::Statements;

#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    identity: FileIdentity,
    clock: Arc<dyn Clock>,
    interned_names: InternedNames,
    /// `None` after an error that the connection must not outlive.
    connection: Option<Connection>,
    /// How long the last COMMIT took.
    pub(crate) took: Duration,
    /// How many transactions there were since the length of the log was looked at.
    commits_since_look: u32,
    is_starved: bool,
    /// Did the disk have no room for the last batch?
    is_full: bool,
    _lock: OwnerLock,
}

/// Why a transaction did not commit.
enum BatchFault {
    /// It could not begin.
    NotBegun(StoreError),
    /// The operation at this place failed; all was rolled back.
    Operation { at: usize, fault: Fault },
    /// COMMIT itself failed.
    Commit(StoreError),
}

impl BatchFault {
    /// Error for the callers.
    fn told(self) -> StoreError {
        match self {
            BatchFault::NotBegun(error) | BatchFault::Commit(error) => error,
            BatchFault::Operation { fault, .. } => fault.into_store_error(),
        }
    }
}

impl Writer {
    pub(crate) fn new(opened: Opened, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let Opened { path, writer, lock } = opened;
        let identity = FileIdentity::of(&path)?;
        let (interned_names, connection) = (InternedNames::default(), Some(writer));
        // Nothing is known about the disk yet.
        let (took, commits_since_look) = (Duration::MAX, 0);
        let (is_starved, is_full) = (false, false);
        Ok(Writer {
            path,
            identity,
            clock,
            interned_names,
            connection,
            took,
            commits_since_look,
            is_starved,
            is_full,
            _lock: lock,
        })
    }

    /// Is it likely to end before a woken thread could start it?
    pub(crate) fn is_quick(&self) -> bool {
        self.took < QUICK_COMMIT && self.connection.is_some() && !self.is_full
    }

    /// Commits all together. An operation that cannot be carried out is taken out of the batch and tried alone, after
    /// those before it and before those after it.
    pub(crate) fn write_batch(&mut self, batch: &mut Vec<Box<dyn Task>>) {
        let mut made_room = false;
        while !batch.is_empty() {
            match self.commit(batch) {
                Ok(()) => batch.drain(..).for_each(Task::acknowledge),
                Err(_) if self.is_full && !made_room => {
                    self.checkpoint();
                    made_room = true;
                }
                Err(BatchFault::Operation { at, .. }) if batch.len() > 1 => {
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
    fn commit(&mut self, batch: &mut [Box<dyn Task>]) -> Result<(), BatchFault> {
        self.identity.check(&self.path).map_err(BatchFault::NotBegun)?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => reopen(&self.path).map_err(|error| BatchFault::NotBegun(rolled_back(&error)))?,
        };
        // Read after the batch was taken, so that no operation is judged by an instant before it was sent.
        let now = self.clock.now();
        let outcome = transact(&connection, &mut self.interned_names, now, batch);
        self.commits_since_look += 1;
        let (trouble, code) = match outcome {
            Ok(took) => {
                self.took = took;
                self.connection = Some(connection);
                return Ok(());
            }
            Err(failed) => failed,
        };
        self.interned_names.forget();
        self.is_full |= code == Some(ErrorCode::DiskFull);
        let rolled_back = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if rolled_back && !needs_new_connection(code) {
            self.connection = Some(connection);
        }
        Err(trouble)
    }

    /// Is it time to see whether the log is long enough to be copied into the file?
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.is_full || self.connection.is_none() || self.commits_since_look >= LOOK_AT_LOG_EVERY
    }

    /// Copies the log into the file once it is long enough. Not part of any caller's wait but the next one's.
    pub(crate) fn checkpoint(&mut self) {
        self.commits_since_look = 0;
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

/// Runs the batch in one transaction, and says how long the commit took; an error comes with what SQLite called it.
fn transact(
    connection: &Connection,
    interned_names: &mut InternedNames,
    now: Timestamp,
    batch: &mut [Box<dyn Task>],
) -> Result<Duration, (BatchFault, Option<ErrorCode>)> {
    execute(connection, "BEGIN IMMEDIATE")
        .map_err(|error| (BatchFault::NotBegun(rolled_back(&error)), error.sqlite_error_code()))?;
    let statements = Statements::new(connection);
    let mut session = Session::new(&statements, interned_names, now);
    for (at, task) in batch.iter_mut().enumerate() {
        task.apply(&mut session).map_err(|fault| {
            let code = fault.code();
            (BatchFault::Operation { at, fault }, code)
        })?;
    }
    let began = Instant::now();
    execute(connection, "COMMIT")
        .map_err(|error| (BatchFault::Commit(commit_failed(&error)), error.sqlite_error_code()))?;
    Ok(began.elapsed())
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
