//! Errors of opening a database, each with the next step.

use std::error::Error as _;
use std::path::PathBuf;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::fault::describe;

/// Why a database could not be opened. No variant ever contains a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be parsed; it is not repeated, because it may contain a password.
    #[error(
        "the URL cannot be read: write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE, with % codes for special characters"
    )]
    BadUrl,
    /// The schema name cannot be used.
    #[error("{0:?} is not a schema name: use 1 to 40 of a-z, 0-9 and _, beginning with a letter")]
    BadSchema(String),
    /// A pool has no connections.
    #[error("{0} is 0, so its work could never be done: set it to at least 1")]
    NoConnections(&'static str),
    /// No server answers.
    #[error(
        "no PostgreSQL answers at {place} ({detail}): check the address, that the server runs, and the firewall"
    )]
    NoServer {
        /// Address of the server.
        place: String,
        /// Cause of the failure.
        detail: String,
    },
    /// The user or the password is wrong.
    #[error(
        "PostgreSQL at {place} does not let this user in ({detail}): check the user, the password, the \
         client certificate (sslcert, sslkey) and pg_hba.conf"
    )]
    NotLetIn {
        /// Address of the server.
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// There is no such database.
    #[error("PostgreSQL at {place} has no such database: create it with `createdb`, or name another")]
    NoDatabase {
        /// Address of the server.
        place: String,
    },
    /// The server has no room for another connection.
    #[error(
        "PostgreSQL at {place} takes no more connections ({detail}): raise max_connections, or run fewer nodes"
    )]
    Full {
        /// Address of the server.
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// The server does not take writes.
    #[error(
        "PostgreSQL at {place} is read-only (a standby, or default_transaction_read_only): connect to the primary"
    )]
    ReadOnly {
        /// Address of the server.
        place: String,
    },
    /// A pooler between this program and the server does not keep sessions.
    #[error(
        "{place} is a pooler that does not keep sessions (PgBouncer with pool_mode = transaction or statement): connect to PostgreSQL itself, or \
         set pool_mode = session for this database. Nothing was changed"
    )]
    SessionsNotKept {
        /// Address of the server.
        place: String,
    },
    /// A pooler between this program and the server has too few connections.
    #[error(
        "the pooler at {place} gave one connection and no second: raise default_pool_size to what docs/scaling.md says, or connect to PostgreSQL itself"
    )]
    FewConnections {
        /// Address of the server.
        place: String,
    },
    /// The server, or a pooler before it, rejects settings in the startup message.
    #[error(
        "{place} rejects settings in the startup message ({detail}): remove `options` from the URL, or connect to PostgreSQL itself"
    )]
    SettingsRefused {
        /// Address of the server.
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// The URL asks for TLS and this program has none.
    #[error(
        "the URL of {place} asks for TLS, which this program was built without: build it with the feature `tls`, or use \
         sslmode=disable over a network you trust"
    )]
    WithoutTls {
        /// Address of the server.
        place: String,
    },
    /// The URL asks for TLS and the server has none.
    #[error(
        "the server at {place} does not speak TLS, which the URL asks for: turn it on there (ssl = on), or use \
         sslmode=disable over a network you trust"
    )]
    NoTls {
        /// Address of the server.
        place: String,
    },
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error(
        "no secure connection to {place} ({detail}): check that sslrootcert names the authority that signed the \
         server's certificate, that the host in the URL is the one in it, and that the server trusts the one in sslcert, if there is one"
    )]
    Tls {
        /// Address of the server.
        place: String,
        /// Cause of the failure.
        detail: String,
    },
    /// The file with the trusted certificates cannot be used.
    #[error("the file of sslrootcert, {}, cannot be used ({detail})", file.display())]
    BadRootCertificate {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        detail: String,
    },
    /// The URL names a client certificate without its key, or the key alone.
    #[error(
        "the URL has {named} but not {missing}: a client certificate and its key go together, so add {missing}=FILE"
    )]
    HalfAnIdentity {
        /// The parameter in the URL.
        named: &'static str,
        /// The missing parameter.
        missing: &'static str,
    },
    /// The file with the client certificate cannot be used.
    #[error("the file of sslcert, {}, cannot be used ({detail})", file.display())]
    BadClientCertificate {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        detail: String,
    },
    /// The file with the key of the client certificate cannot be used.
    #[error("the file of sslkey, {}, cannot be used ({detail})", file.display())]
    BadClientKey {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        detail: String,
    },
    /// There are no trusted certificates.
    #[error(
        "this machine trusts no certificates, so none can be checked: name those to trust with sslrootcert=FILE"
    )]
    NobodyTrusted,
    /// The server is too old.
    #[error("PostgreSQL {} is too old: use {} or newer", found / 10_000, needed / 10_000)]
    OldServer {
        /// The version found, as PostgreSQL counts.
        found: i32,
        /// The oldest supported one.
        needed: i32,
    },
    /// The tables were written by a newer program.
    #[error(
        "the tables at {place} have version {found}, this program knows up to {known}: use the newer program"
    )]
    Newer {
        /// Address of the server.
        place: String,
        /// Their version.
        found: i32,
        /// The newest version this program knows.
        known: i32,
    },
    /// The tables must be migrated first.
    #[error(
        "the tables at {place} have version {found}, this program needs {known}: run `hapax admin migrate`"
    )]
    Older {
        /// Address of the server.
        place: String,
        /// Their version; 0 if there are none.
        found: i32,
        /// The version this program needs.
        known: i32,
    },
    /// The role lacks a permission.
    #[error(
        "the role may not do this at {place} ({detail}): migrate in the name of an owner, then grant USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables"
    )]
    NotAllowed {
        /// Address of the server.
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// Any other error of the server or the driver.
    #[error("PostgreSQL at {place} cannot be used ({detail})")]
    Other {
        /// Address of the server.
        place: String,
        /// Message of the error.
        detail: String,
    },
}

impl OpenError {
    /// Returns true if the same database may be opened later without a person's help. True for a
    /// server that is away, starting or full, or a standby that may be promoted; false for
    /// everything that a person must correct.
    pub fn is_transient(&self) -> bool {
        matches!(self, OpenError::NoServer { .. } | OpenError::Full { .. } | OpenError::ReadOnly { .. })
    }

    /// Sorts an error by what to do about it.
    pub(crate) fn from_postgres(place: &str, error: &Error) -> Self {
        let (place, detail) = (place.to_owned(), describe(error));
        if let Some(said) = error.as_db_error() {
            let code = said.code();
            return match &code.code()[..2] {
                // PgBouncer's wording.
                _ if said.message().contains("startup parameter") => {
                    OpenError::SettingsRefused { place, detail }
                }
                "28" => OpenError::NotLetIn { place, detail },
                "3D" => OpenError::NoDatabase { place },
                "53" if *code == SqlState::TOO_MANY_CONNECTIONS => OpenError::Full { place, detail },
                _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => OpenError::NotAllowed { place, detail },
                _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => OpenError::ReadOnly { place },
                "57" => OpenError::NoServer { place, detail },
                _ => OpenError::Other { place, detail },
            };
        }
        let text = error.to_string();
        if text.contains("TLS") {
            return match detail.contains("does not support TLS") {
                true => OpenError::NoTls { place },
                false => OpenError::Tls { place, detail },
            };
        }
        // With TLS 1.3 a server rejects a client certificate after the handshake.
        if detail.contains("received fatal alert") {
            return OpenError::Tls { place, detail };
        }
        let io = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        match io {
            // The driver's wording for a server that takes no writes under
            // target_session_attrs=read-write.
            Some(io) if io.to_string().contains("does not allow writes") => OpenError::ReadOnly { place },
            Some(_) => OpenError::NoServer { place, detail },
            None if text.contains("password missing") || text.contains("authentication") => {
                OpenError::NotLetIn { place, detail }
            }
            None if text.contains("timeout") || text.contains("timed out") || error.is_closed() => {
                OpenError::NoServer { place, detail }
            }
            None => OpenError::Other { place, detail },
        }
    }
}
