//! What can go wrong inside an operation, and what its caller is told.

use std::error::Error as _;
use std::time::Duration;

use hapax_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// Why an operation came to no outcome.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PostgreSQL said no, or nothing.
    Sql(Error),
    /// The database holds what the model does not know, or this store has a fault.
    Broken(String),
    /// The request can never succeed. Only to be raised before anything was written.
    Refused(String),
    /// Another transaction was faster; the same again will see what it did.
    Rival,
    /// There was no connection, so nothing was sent.
    NotSent(String),
    /// So much time was over before an answer came.
    OutOfTime(Duration),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Sql(error)
    }
}

/// What an error of PostgreSQL means for the transaction it happened in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Rolled back because of other transactions: the whole of it may be tried again.
    Collision,
    /// Rolled back because of its own data: no later try will do better.
    BadData,
    /// Rolled back because the statement and the tables do not fit: this store has a fault, or the schema.
    Misfit,
    /// Rolled back; a later try may succeed.
    Passing,
    /// The connection is gone, and with it the knowledge of what became of the transaction.
    Lost,
}

/// Judges an error.
pub(crate) fn judge(error: &Error) -> Verdict {
    let Some(said) = error.as_db_error() else {
        // A parameter that cannot be sent is the one thing that goes wrong before anything is sent.
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
        // Data exceptions, broken constraints, limits of the program.
        "22" | "23" | "54" => Verdict::BadData,
        // Features, prepared statements, syntax and names, and what PostgreSQL calls an internal error.
        "0A" | "26" | "42" | "XX" => Verdict::Misfit,
        _ => Verdict::Passing,
    }
}

fn out_of_time(after: Duration) -> String {
    format!("the server did not answer in time ({after:?})")
}

impl Fault {
    /// May the same transaction be tried again at once?
    pub(crate) fn is_collision(&self) -> bool {
        match self {
            // Something that was not there when it was looked for has been inserted meanwhile.
            Fault::Sql(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => true,
            Fault::Sql(error) => judge(error) == Verdict::Collision,
            Fault::Rival => true,
            Fault::Broken(_) | Fault::Refused(_) | Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// Is the connection as good as before, once its transaction is rolled back?
    pub(crate) fn leaves_connection_sound(&self) -> bool {
        match self {
            Fault::Sql(error) => matches!(judge(error), Verdict::Collision | Verdict::BadData),
            Fault::Refused(_) | Fault::Rival => true,
            Fault::Broken(_) | Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// Does it concern the operation itself rather than the connection, so that others of its batch may do better alone?
    pub(crate) fn is_of_operation(&self) -> bool {
        match self {
            Fault::Sql(error) => judge(error) != Verdict::Lost,
            Fault::Broken(_) | Fault::Refused(_) | Fault::Rival => true,
            Fault::NotSent(_) | Fault::OutOfTime(_) => false,
        }
    }

    /// What the caller is told, given that nothing the operation wrote was committed.
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

    /// What the caller is told if the commit may have reached the server.
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
