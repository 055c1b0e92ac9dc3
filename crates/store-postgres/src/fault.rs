//! Faults of an operation, and the errors of its caller.

use std::error::Error as _;
use std::time::Duration;

use hapax_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// Why an operation has no outcome.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PostgreSQL reported an error, or did not answer.
    Sql(Error),
    /// The database contains data that the model does not know, or this store has a bug.
    Broken(String),
    /// The request can never succeed. Must be returned before anything is written.
    Refused(String),
    /// Another transaction was faster; a retry will see its changes.
    Rival,
    /// There was no connection, so nothing was sent.
    NotSent(String),
    /// The time limit passed before a response.
    OutOfTime(Duration),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Sql(error)
    }
}

/// Meaning of a PostgreSQL error for the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Rolled back because of other transactions: all of it may be retried.
    Collision,
    /// Rolled back because of its own data: a retry would fail too.
    BadData,
    /// Rolled back because the statement and the tables do not match: a bug in this store, or in
    /// the schema.
    Misfit,
    /// Rolled back; a later retry may succeed.
    Passing,
    /// The connection is gone, and the outcome of the transaction is unknown.
    Lost,
}

/// Judges an error.
pub(crate) fn judge(error: &Error) -> Verdict {
    let Some(said) = error.as_db_error() else {
        // Only an unserializable parameter fails before anything is sent.
        let is_ours = error.to_string().starts_with("error serializing");
        return if is_ours { Verdict::Misfit } else { Verdict::Lost };
    };
    if matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
        return Verdict::Lost;
    }
    let code = said.code();
    if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
        return Verdict::Collision;
    }
    match &code.code()[..2] {
        // Data exceptions, integrity constraints, program limits.
        "22" | "23" | "54" => Verdict::BadData,
        // Unsupported features, prepared statements, syntax and names, and PostgreSQL's internal
        // errors.
        "0A" | "26" | "42" | "XX" => Verdict::Misfit,
        _ => Verdict::Passing,
    }
}

fn out_of_time(after: Duration) -> String {
    format!("the server did not answer in time ({after:?})")
}

impl Fault {
    /// Returns true if the same transaction may be retried at once.
    pub(crate) fn is_collision(&self) -> bool {
        match self {
            // A row that was missing at the lookup has been inserted by another transaction.
            Fault::Sql(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => true,
            Fault::Sql(error) => judge(error) == Verdict::Collision,
            Fault::Rival => true,
            Fault::Broken(_) | Fault::Refused(_) | Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// Returns true if the connection is usable after a rollback.
    pub(crate) fn leaves_connection_sound(&self) -> bool {
        match self {
            Fault::Sql(error) => matches!(judge(error), Verdict::Collision | Verdict::BadData),
            Fault::Refused(_) | Fault::Rival => true,
            Fault::Broken(_) | Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// Returns true if the operation itself is at fault, and the others of its batch may succeed
    /// alone.
    pub(crate) fn is_of_operation(&self) -> bool {
        match self {
            Fault::Sql(error) => judge(error) != Verdict::Lost,
            Fault::Broken(_) | Fault::Refused(_) | Fault::Rival => true,
            Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// Error for the caller, if nothing of the operation was committed.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Fault::Sql(error) => match judge(&error) {
                Verdict::BadData => StoreError::Refused(describe(&error)),
                Verdict::Misfit => StoreError::Broken(describe(&error)),
                Verdict::Collision | Verdict::Passing | Verdict::Lost => {
                    StoreError::Unavailable(describe(&error))
                }
            },
            Fault::Broken(text) => StoreError::Broken(text),
            Fault::Refused(text) => StoreError::Refused(text),
            Fault::Rival => StoreError::Unavailable("other transactions were faster every time".into()),
            Fault::NotSent(text) => StoreError::Unavailable(text),
            Fault::OutOfTime(after) => StoreError::Unavailable(out_of_time(after)),
        }
    }

    /// Error for the caller, if the commit may have reached the server.
    pub(crate) fn into_commit_error(self) -> StoreError {
        match self {
            Fault::Sql(error) if judge(&error) == Verdict::Lost => StoreError::Unknown(describe(&error)),
            Fault::OutOfTime(after) => StoreError::Unknown(out_of_time(after)),
            other => other.into_store_error(),
        }
    }
}

/// The error with its causes. It never holds the password: PostgreSQL does not repeat it, and the driver does not show it.
pub(crate) fn describe(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        let text = format!("{} ({})", said.message(), said.code().code());
        return match *said.code() == SqlState::LOCK_NOT_AVAILABLE {
            true => format!("{text}: another transaction that has not ended holds what this needs"),
            false => text,
        };
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
