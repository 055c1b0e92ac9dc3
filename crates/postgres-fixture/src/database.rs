//! A fresh database for one test.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, NoTls};

use crate::cluster::Cluster;
use crate::error::FixtureError;
use crate::shared;

/// 'HAPX': lock for creating a template.
const TEMPLATE_LOCK: i64 = 0x4841_5058;
/// 'HAPY': lock for dropping finished databases.
const DROPPING_LOCK: i64 = 0x4841_5059;
/// How many databases that are over stay, some eight megabytes each, before they are dropped together: to drop one takes a checkpoint of the
/// whole server, longer than most tests, and those after the first have little left to flush.
const MAX_OVER: usize = 64;
/// Most databases that one test drops. A busy server takes a second for each, and a test that dropped a growing backlog would run into its timeout.
const MAX_DROPPED: usize = 16;
/// Finished databases accept no connections.
const LIST_OVER: &str = r"SELECT datname FROM pg_database WHERE NOT datallowconn AND datname LIKE 'test\_%'";

/// Keeps, in a template, what a used copy must look like before another test may have it.
const REMEMBER_SHAPE: &str = include_str!("../sql/remember_shape.sql");
/// Gives a used copy the rows of its template again, or fails if the test changed more than rows.
const RESTORE_ROWS: &str = include_str!("../sql/restore_rows.sql");
/// Ends all connections to a database, and waits until they are gone.
const END_CONNECTIONS: &str = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()";

/// A database of its own on the shared server.
#[derive(Debug)]
pub struct Database {
    cluster: &'static Cluster,
    name: String,
    /// The template it is a copy of, if another test may have it afterwards.
    template: Option<String>,
}

impl Database {
    /// An empty one.
    pub async fn empty() -> Result<Database, FixtureError> {
        Database::copy_of("template0", None).await
    }

    /// A copy of a template that `prepare` fills, given its URL, before the first copy of this test program is made.
    ///
    /// Making a copy takes longer than most tests. So a copy whose test changed only rows gets the template's rows back and is
    /// given to the next test.
    pub async fn from_template<F: Future<Output = ()>>(
        prepare: impl FnOnce(String) -> F,
    ) -> Result<Database, FixtureError> {
        let template = template_name()?;
        make_template(shared::cluster()?, &template, prepare).await?;
        Database::copy_of(&template, Some(template.clone())).await
    }

    async fn copy_of(source: &str, template: Option<String>) -> Result<Database, FixtureError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let cluster = shared::cluster()?;
        let name = format!("test_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&cluster.url("postgres")).await?;
        // A process that had this number before may have left one behind.
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        if template.is_none() || !take_spare(&admin, source, &name).await? {
            admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {source}")).await?;
        }
        Ok(Database { cluster, name, template })
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, over a socket.
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Its URL, over TCP and with a password.
    pub fn tcp_url(&self) -> String {
        self.cluster.tcp_url(&self.name)
    }

    /// A connection to it, to look behind the back of what is tested.
    pub async fn connect(&self) -> Result<Client, FixtureError> {
        connect(&self.url()).await
    }
}

impl Drop for Database {
    /// On a thread of its own, since a test may drop it inside or outside a runtime.
    fn drop(&mut self) {
        let (url, own_url, name) = (self.cluster.url("postgres"), self.url(), self.name.clone());
        // The database of a test that failed is looked at by nobody, and may be in any state.
        let template = self.template.take().filter(|_| !std::thread::panicking());
        let dropping = std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                if let Some(template) = template
                    && make_spare(&url, &own_url, &name, &template).await.is_ok()
                {
                    return;
                }
                // A database that cannot be dropped goes with the server.
                let _ = leave(&url, &name, MAX_OVER).await;
            });
        });
        let _ = dropping.join();
    }
}

/// Takes a spare copy of a template under a new name. Renaming is atomic: of two tests that want the same spare one gets it.
async fn take_spare(admin: &Client, template: &str, name: &str) -> Result<bool, FixtureError> {
    let list = "SELECT datname FROM pg_database WHERE starts_with(datname, $1)";
    for row in admin.query(list, &[&spare_prefix(template)]).await? {
        let spare: &str = row.get(0);
        if admin.batch_execute(&format!("ALTER DATABASE {spare} RENAME TO {name}")).await.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Restores a used copy and renames it to a spare.
async fn make_spare(url: &str, own_url: &str, name: &str, template: &str) -> Result<(), FixtureError> {
    let admin = connect(url).await?;
    admin.execute(END_CONNECTIONS, &[&name]).await?;
    let copy = connect(own_url).await?;
    copy.batch_execute(RESTORE_ROWS).await?;
    admin.execute(END_CONNECTIONS, &[&name]).await?;
    let spare = format!("{}{}", spare_prefix(template), name.trim_start_matches("test_"));
    admin.batch_execute(&format!("ALTER DATABASE {name} RENAME TO {spare}")).await?;
    Ok(())
}

fn spare_prefix(template: &str) -> String {
    format!("spare_{}_", template.trim_start_matches("template_"))
}

/// Marks a database as over, and drops all that are once there are so many.
async fn leave(url: &str, name: &str, max_over: usize) -> Result<(), FixtureError> {
    let admin = connect(url).await?;
    admin.batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await?;
    if admin.query(LIST_OVER, &[]).await?.len() < max_over {
        return Ok(());
    }
    // The holder drops them all. The lock ends with the connection.
    let is_ours: bool = admin.query_one("SELECT pg_try_advisory_lock($1)", &[&DROPPING_LOCK]).await?.get(0);
    if !is_ours {
        return Ok(());
    }
    for row in admin.query(LIST_OVER, &[]).await?.iter().take(MAX_DROPPED) {
        let over: &str = row.get(0);
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {over} WITH (FORCE)")).await?;
    }
    Ok(())
}

/// One per build of each test program, so that no change of what prepares it is ever missed.
fn template_name() -> Result<String, FixtureError> {
    let program = std::env::current_exe().map_err(FixtureError::file("the program"))?;
    let built_at =
        program.metadata().and_then(|data| data.modified()).map_err(FixtureError::file(&program))?;
    let mut hash = DefaultHasher::new();
    (program, built_at).hash(&mut hash);
    Ok(format!("template_{:016x}", hash.finish()))
}

async fn make_template<F: Future<Output = ()>>(
    cluster: &Cluster,
    name: &str,
    prepare: impl FnOnce(String) -> F,
) -> Result<(), FixtureError> {
    let admin = connect(&cluster.url("postgres")).await?;
    let is_made = "SELECT 1 FROM pg_database WHERE datname = $1";
    if admin.query_opt(is_made, &[&name]).await?.is_some() {
        return Ok(());
    }
    // Held until the connection ends, so that test processes that start together make it once.
    admin.execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await?;
    if admin.query_opt(is_made, &[&name]).await?.is_some() {
        return Ok(());
    }
    let unfinished = format!("{name}_unfinished");
    admin.batch_execute(&format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await?;
    admin.batch_execute(&format!("CREATE DATABASE {unfinished}")).await?;
    prepare(cluster.url(&unfinished)).await;
    connect(&cluster.url(&unfinished)).await?.batch_execute(REMEMBER_SHAPE).await?;
    admin.execute(END_CONNECTIONS, &[&unfinished]).await?;
    admin.batch_execute(&format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await?;
    Ok(())
}

async fn connect(url: &str) -> Result<Client, FixtureError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn databases_that_are_over_are_dropped_together() {
        let (one, two) = (Database::empty().await.unwrap(), Database::empty().await.unwrap());
        let (url, names) = (one.cluster.url("postgres"), [one.name.clone(), two.name.clone()]);
        let admin = connect(&url).await.unwrap();
        // While another process drops databases, these two stay.
        admin.execute("SELECT pg_advisory_lock($1)", &[&DROPPING_LOCK]).await.unwrap();
        leave(&url, &names[0], 1).await.unwrap();
        let left = "SELECT count(*) FROM pg_database WHERE datname = ANY($1)";
        let count = async || admin.query_one(left, &[&&names[..]]).await.unwrap().get::<_, i64>(0);
        assert_eq!(count().await, 2);
        admin.execute("SELECT pg_advisory_unlock($1)", &[&DROPPING_LOCK]).await.unwrap();
        leave(&url, &names[1], 1).await.unwrap();
        assert!(one.connect().await.is_err() && two.connect().await.is_err());
        while count().await > 0 {
            // Another test had the lock; it may have dropped them before this one comes to it.
            let _ = leave(&url, &names[1], 1).await;
        }
    }
}
