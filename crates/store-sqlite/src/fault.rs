//! Faults of an operation, and the errors of its caller.

use hapax_engine::store::StoreError;
use rusqlite::ErrorCode;

/// Why an operation came to no outcome.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// The file holds what the model does not know, or this store has a fault.
    Broken(String),
    /// User code ended the transaction it was given, and with it the transaction of the whole
    /// batch.
    Ended(String),
    /// The request can never succeed. Only to be raised before anything was written.
    Refused(String),
    /// The same, after something may have been written: it must be rolled back.
    TakenBack(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

impl Fault {
    /// SQLite's code, if the error is SQLite's.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Fault::Sql(error) => error.sqlite_error_code(),
            Fault::Broken(_) | Fault::Ended(_) | Fault::Refused(_) | Fault::TakenBack(_) => None,
        }
    }

    /// Error for the caller, after everything the operation wrote was rolled back.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Fault::Sql(error) => rolled_back(&error),
            Fault::Broken(text) => StoreError::Broken(text),
            Fault::Ended(text) => StoreError::Unavailable(text),
            Fault::Refused(text) | Fault::TakenBack(text) => StoreError::Refused(text),
        }
    }
}

/// Error for a caller whose write was rolled back because of `error`.
pub(crate) fn rolled_back(error: &rusqlite::Error) -> StoreError {
    let text = describe(error);
    match error.sqlite_error_code() {
        // The data of this one request break a rule of a table; no later try will do better.
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
            StoreError::Refused(text)
        }
        // Also SQL that does not fit the file: a table is missing, or this store has a fault.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::Unknown
            | ErrorCode::InternalMalfunction
            | ErrorCode::ApiMisuse,
        ) => StoreError::Broken(text),
        Some(_) => StoreError::Unavailable(text),
        // Not from SQLite but from reading its answer: the file holds what was never written.
        None => StoreError::Broken(text),
    }
}

/// Error for callers when COMMIT itself failed with `error`.
pub(crate) fn commit_failed(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        // The log was written and may or may not be on the disk.
        Some(ErrorCode::SystemIoFailure) | None => StoreError::Unknown(describe(error)),
        Some(_) => rolled_back(error),
    }
}

/// Is the connection itself to be distrusted after an error that SQLite calls `code`?
pub(crate) fn needs_new_connection(code: Option<ErrorCode>) -> bool {
    matches!(
        code,
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
        )
    )
}

/// Does the SQL not fit the tables that are there? If so, why.
pub(crate) fn misfit(error: &rusqlite::Error) -> Option<&str> {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => Some(msg),
        rusqlite::Error::SqliteFailure(failure, why) if failure.code == ErrorCode::Unknown => {
            Some(why.as_deref().unwrap_or("no reason is given"))
        }
        _ => None,
    }
}

/// The error with what can be done about it, where that is known.
fn describe(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!("{error}: free some disk space"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{error}: another process holds the write lock")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            format!("{error}: stop, keep the files, and restore a backup")
        }
        Some(ErrorCode::ReadOnly) => format!("{error}: check the permissions of the file and its folder"),
        _ => error.to_string(),
    }
}
