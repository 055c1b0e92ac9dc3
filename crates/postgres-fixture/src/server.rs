//! One test's own server.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::{Client, NoTls};

use crate::cluster::Cluster;
use crate::error::FixtureError;
use crate::server_guard::{self, Locks};

/// How long a standby may take to follow.
const FOLLOW_WITHIN: Duration = Duration::from_secs(30);

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Transactions are rolled back, connections closed, data flushed.
    Fast,
    /// All processes quit at once; the next start recovers from the log.
    Immediate,
}

impl Shutdown {
    pub(crate) const fn mode(self) -> &'static str {
        match self {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        }
    }
}

/// How to start a server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    settings: Vec<(String, String)>,
}

impl ServerOptions {
    /// A line of `postgresql.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it. Takes a second or two, so a test that needs no server of its own uses [`crate::Database`].
    pub fn start(self) -> Result<Server, FixtureError> {
        Server::start_with(&self.settings)
    }
}

/// A server that one test starts, stops, kills and starts again; gone with it.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    /// The keeper waits for it.
    _in_use: File,
}

impl Server {
    /// Starts one with the usual settings.
    pub fn start() -> Result<Server, FixtureError> {
        ServerOptions::default().start()
    }

    fn start_with(settings: &[(String, String)]) -> Result<Server, FixtureError> {
        Server::start_by(|folder| Cluster::create(folder, settings))
    }

    fn start_by(start: impl FnOnce(&Path) -> Result<Cluster, FixtureError>) -> Result<Server, FixtureError> {
        let folder = make_folder()?;
        let locks = Locks::in_folder(&folder);
        let (guard, in_use) = (locks.take_guard()?, locks.use_it()?);
        // Before the server, so that there is no moment at which nothing would end it.
        server_guard::spawn(&folder, &locks, Duration::ZERO)?;
        let cluster = start(&folder)?;
        drop(guard);
        Ok(Server { cluster, _in_use: in_use })
    }

    /// The URL of a database, over a socket.
    pub fn url(&self, database: &str) -> String {
        self.cluster.url(database)
    }

    /// The URL of a database, over TCP and with a password.
    pub fn tcp_url(&self, database: &str) -> String {
        self.cluster.tcp_url(database)
    }

    /// The port it listens on at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.cluster.port
    }

    /// The folder of its socket.
    pub fn socket_folder(&self) -> PathBuf {
        self.cluster.folder.join("socket")
    }

    /// Where its data lies.
    pub fn data_folder(&self) -> PathBuf {
        self.cluster.folder.join("data")
    }

    /// Stops it.
    pub fn stop(&self, how: Shutdown) -> Result<(), FixtureError> {
        self.cluster.stop(how)
    }

    /// Starts it again, on the same port with the same data, and waits until it answers.
    pub fn start_again(&self) -> Result<(), FixtureError> {
        self.cluster.start()
    }

    /// Stops it and starts it again.
    pub fn restart(&self, how: Shutdown) -> Result<(), FixtureError> {
        self.stop(how)?;
        self.start_again()
    }

    /// Kills it with `kill -9`; the processes of its connections notice and quit.
    pub fn kill(&self) {
        self.cluster.kill();
    }

    /// Stops all its processes where they are: connections stay, nothing answers.
    pub fn freeze(&self) {
        self.cluster.signal_all(Signal::STOP);
    }

    /// Lets its processes go on.
    pub fn thaw(&self) {
        self.cluster.signal_all(Signal::CONT);
    }

    /// Starts a standby that follows this server. From then on this one acknowledges a commit only when the standby has
    /// it on its disk, too.
    pub fn standby(&self) -> Result<Server, FixtureError> {
        let standby = Server::start_by(|folder| Cluster::follow(&self.cluster, folder))?;
        self.cluster.set("synchronous_standby_names", "standby")?;
        let question = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let began = Instant::now();
        while ask(&self.url("postgres"), question)? == 0 {
            if began.elapsed() > FOLLOW_WITHIN {
                return Err(FixtureError::NotFollowing { log: standby.log() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(standby)
    }

    /// Makes a standby take writes. The server it followed must be gone, or there are two of them.
    pub fn promote(&self) -> Result<(), FixtureError> {
        self.cluster.promote()
    }

    /// Its log, for failed tests.
    pub fn log(&self) -> String {
        self.cluster.log()
    }
}

impl Drop for Server {
    /// Ends it here and now if that is easy; the keeper takes care of the rest.
    fn drop(&mut self) {
        // A frozen server hears nothing.
        self.thaw();
        let _ = self.stop(Shutdown::Immediate);
    }
}

/// Asks for a number.
fn ask(url: &str, question: &str) -> Result<i64, FixtureError> {
    with_client(url, async |client| Ok(client.query_one(question, &[]).await?.get(0)))
}

/// Works with one connection, on a thread of its own, since a test may ask inside or outside a runtime.
pub(crate) fn with_client<T: Send>(
    url: &str,
    work: impl AsyncFnOnce(&Client) -> Result<T, FixtureError> + Send,
) -> Result<T, FixtureError> {
    let connected = async || {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        work(&client).await
    };
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(FixtureError::file("a runtime"))?.block_on(connected())
        });
        done.join().expect("asking does not panic")
    })
}

/// A folder for a server. Only the keeper removes it, so that it is there as long as the server.
pub(crate) fn make_folder() -> Result<PathBuf, FixtureError> {
    let temporary = std::env::temp_dir();
    let folder = tempfile::Builder::new().prefix("hapax-postgres-").tempdir();
    let folder = folder.map_err(FixtureError::file(temporary))?.keep();
    // The server's own user passes through to the folders that are its own.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o711)).map_err(FixtureError::file(&folder))?;
    folder.canonicalize().map_err(FixtureError::file(&folder))
}
