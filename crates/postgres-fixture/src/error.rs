//! Why there is no PostgreSQL to test with, each with what to do next.

use std::path::PathBuf;

/// Why there is no PostgreSQL to test with.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// No binaries.
    #[error(
        "PostgreSQL's initdb and pg_ctl are neither in PATH nor in /usr/lib/postgresql/*/bin; \
         install them with `apt-get install postgresql` (or your system's package), or put them into PATH"
    )]
    NotInstalled,
    /// The environment names a folder that lacks a program.
    #[error("{}, which HAPAX_POSTGRES_BIN names, lacks initdb, pg_ctl or postgres; name the folder they are in", folder.display())]
    NotThere {
        /// The folder.
        folder: PathBuf,
    },
    /// No PgBouncer.
    #[error("pgbouncer is neither in PATH nor in /usr/sbin; install it with `apt-get install pgbouncer`")]
    NoBouncer,
    /// A PgBouncer that does not come up.
    #[error("pgbouncer does not listen: {log}")]
    NotListening {
        /// Its log.
        log: String,
    },
    /// Root, and nobody else to run the server as.
    #[error("PostgreSQL refuses to run as root, and there is neither a user `postgres` nor a user `nobody`")]
    NoUser,
    /// A command that sets the server up or moves it failed.
    #[error("{command} failed ({status}): {output}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// The response.
        output: String,
    },
    /// A command could not be run.
    #[error("{command} could not be run: {cause}")]
    NotRun {
        /// The command.
        command: String,
        /// Why it was not.
        cause: std::io::Error,
    },
    /// A file or folder of the fixture could not be used.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// A standby does not follow its server.
    #[error("the standby does not follow its server: {log}")]
    NotFollowing {
        /// The standby's log.
        log: String,
    },
    /// The server said no.
    #[error("the server said no: {0}")]
    Sql(#[from] tokio_postgres::Error),
}

impl FixtureError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> FixtureError {
        let path = path.into();
        move |cause| FixtureError::File { path, cause }
    }
}
