//! Why a database could not be opened, each with what to do next.

use std::error::Error as _;
use std::path::PathBuf;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::fault::describe;

/// Why a database could not be opened. No variant ever holds a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be read; it is not repeated, because it may hold a password.
    #[error(
        "the URL cannot be read: write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE, with % codes for special characters"
    )]
    BadUrl,
    /// The schema name cannot be used.
    #[error("{0:?} is not a schema name: use 1 to 40 of a-z, 0-9 and _, beginning with a letter")]
    BadSchema(String),
    /// There would be nobody to do a part of the work.
    #[error("{0} is 0, so that nothing of its kind could ever be done: give it at least 1")]
    NoConnections(&'static str),
    /// Nobody answers.
    #[error(
        "no PostgreSQL answers at {place} ({detail}): check the address, that the server runs, and the firewall"
    )]
    NoServer {
        /// Where.
        place: String,
        /// What happened.
        detail: String,
    },
    /// The user or the password is wrong.
    #[error(
        "PostgreSQL at {place} does not let this user in ({detail}): check the user, the password, the \
         client certificate (sslcert, sslkey) and pg_hba.conf"
    )]
    NotLetIn {
        /// Where.
        place: String,
        /// What the server said.
        detail: String,
    },
    /// There is no such database.
    #[error("PostgreSQL at {place} has no such database: create it with `createdb`, or name another")]
    NoDatabase {
        /// Where.
        place: String,
    },
    /// The server has no room for another connection.
    #[error(
        "PostgreSQL at {place} takes no more connections ({detail}): raise max_connections, or run fewer nodes"
    )]
    Full {
        /// Where.
        place: String,
        /// What the server said.
        detail: String,
    },
    /// The server does not take writes.
    #[error(
        "PostgreSQL at {place} is read-only (a standby, or default_transaction_read_only): connect to the primary"
    )]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// A pooler between this program and the server does not keep sessions.
    #[error(
        "{place} is a pooler that does not keep sessions (PgBouncer with pool_mode = transaction or statement): connect to PostgreSQL itself, or \
         set pool_mode = session for this database. Nothing was changed"
    )]
    SessionsNotKept {
        /// Where.
        place: String,
    },
    /// A pooler between this program and the server has too few connections.
    #[error(
        "the pooler at {place} gave one connection and no second: raise default_pool_size to what docs/scaling.md says, or connect to PostgreSQL itself"
    )]
    FewConnections {
        /// Where.
        place: String,
    },
    /// The server, or a pooler before it, rejects settings in the startup message.
    #[error(
        "{place} rejects settings in the startup message ({detail}): remove `options` from the URL, or connect to PostgreSQL itself"
    )]
    SettingsRefused {
        /// Where.
        place: String,
        /// What was said.
        detail: String,
    },
    /// The URL asks for TLS and this program has none.
    #[error(
        "the URL of {place} asks for TLS, which this program was built without: build it with the feature `tls`, or use \
         sslmode=disable over a network you trust"
    )]
    WithoutTls {
        /// Where.
        place: String,
    },
    /// The URL asks for TLS and the server has none.
    #[error(
        "the server at {place} does not speak TLS, which the URL asks for: turn it on there (ssl = on), or use \
         sslmode=disable over a network you trust"
    )]
    NoTls {
        /// Where.
        place: String,
    },
    /// The two did not come to terms, or the certificate is not trusted.
    #[error(
        "no secure connection to {place} ({detail}): check that sslrootcert names the certificate of whoever signed the \
         server's, that the host in the URL is the one in it, and that the server trusts the one in sslcert, if there is one"
    )]
    Tls {
        /// Where.
        place: String,
        /// What happened.
        detail: String,
    },
    /// The file with the trusted certificates cannot be used.
    #[error("the file of sslrootcert, {}, cannot be used ({detail})", file.display())]
    BadRootCertificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The URL names a client certificate without its key, or the key alone.
    #[error(
        "the URL has {named} but not {missing}: a client certificate and its key go together, so add {missing}=FILE"
    )]
    HalfAnIdentity {
        /// What the URL has.
        named: &'static str,
        /// What it lacks.
        missing: &'static str,
    },
    /// The file with the client certificate cannot be used.
    #[error("the file of sslcert, {}, cannot be used ({detail})", file.display())]
    BadClientCertificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file with the key of the client certificate cannot be used.
    #[error("the file of sslkey, {}, cannot be used ({detail})", file.display())]
    BadClientKey {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// There is nobody to trust.
    #[error(
        "this machine trusts no certificates, so none can be checked: name those to trust with sslrootcert=FILE"
    )]
    NobodyTrusted,
    /// The server is too old.
    #[error("PostgreSQL {} is too old: use {} or newer", found / 10_000, needed / 10_000)]
    OldServer {
        /// The version found, as PostgreSQL counts.
        found: i32,
        /// The oldest good one.
        needed: i32,
    },
    /// The tables were written by a newer program.
    #[error(
        "the tables at {place} have version {found}, this program knows up to {known}: use the newer program"
    )]
    Newer {
        /// Where.
        place: String,
        /// Their version.
        found: i32,
        /// The newest version this program knows.
        known: i32,
    },
    /// The tables are to be brought up to date first.
    #[error(
        "the tables at {place} have version {found}, this program needs {known}: run `hapax admin migrate`"
    )]
    Older {
        /// Where.
        place: String,
        /// Their version; 0 if there are none.
        found: i32,
        /// The version this program needs.
        known: i32,
    },
    /// The role may not do what is needed.
    #[error(
        "the role may not do this at {place} ({detail}): migrate in the name of an owner, then grant USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables"
    )]
    NotAllowed {
        /// Where.
        place: String,
        /// What the server said.
        detail: String,
    },
    /// Anything else the server or the driver said.
    #[error("PostgreSQL at {place} cannot be used ({detail})")]
    Other {
        /// Where.
        place: String,
        /// What was said.
        detail: String,
    },
}

impl OpenError {
    /// May the same database be opened later, with nothing changed but what the database does by itself? True of a server that is away, starts, is full, or is
    /// a standby that may be promoted; false of everything that somebody has to set right.
    pub fn is_transient(&self) -> bool {
        matches!(self, OpenError::NoServer { .. } | OpenError::Full { .. } | OpenError::ReadOnly { .. })
    }

    /// Sorts an error by what to do about it.
    pub(crate) fn from_postgres(place: &str, error: &Error) -> Self {
        let (place, detail) = (place.to_owned(), describe(error));
        if let Some(said) = error.as_db_error() {
            let code = said.code();
            return match &code.code()[..2] {
                // How PgBouncer says it.
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
            // How the driver says that a server with target_session_attrs=read-write takes no writes.
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
