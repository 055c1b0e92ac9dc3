//! A copy of a running server's data for a standby, where PostgreSQL came without `pg_basebackup`.

use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use tokio_postgres::{Client, NoTls};

use crate::binaries::User;
use crate::error::FixtureError;

/// These describe the running server, not its data.
const NOT_COPIED: [&str; 3] = ["postmaster.pid", "postmaster.opts", "server.log"];
/// PostgreSQL renamed the two functions in this version.
const RENAMED_IN: i32 = 150_000;

/// Copies the data folder of the server at `url` into an empty folder, as of one moment. The standby fetches the rest of the log itself.
pub(crate) fn copy(url: &str, from: &Path, to: &Path, owner: Option<User>) -> Result<(), FixtureError> {
    let copying = async || {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let version: i32 =
            client.query_one("SELECT current_setting('server_version_num')::int", &[]).await?.get(0);
        let (start, stop) = match version < RENAMED_IN {
            true => (
                "SELECT pg_start_backup('standby', true, false)",
                "SELECT labelfile FROM pg_stop_backup(false, false)",
            ),
            false => {
                ("SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)")
            }
        };
        client.query_one(start, &[]).await?;
        copy_folder(from, to, owner)?;
        let label = finish(&client, stop).await?;
        put(&to.join("backup_label"), label.as_bytes(), owner)
    };
    // On a thread of its own, since a test may ask inside or outside a runtime.
    std::thread::scope(|scope| {
        let copied = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(FixtureError::file("a runtime"))?.block_on(copying())
        });
        copied.join().expect("copying does not panic")
    })
}

async fn finish(client: &Client, stop: &str) -> Result<String, FixtureError> {
    Ok(client.query_one(stop, &[]).await?.get(0))
}

fn copy_folder(from: &Path, to: &Path, owner: Option<User>) -> Result<(), FixtureError> {
    for entry in std::fs::read_dir(from).map_err(FixtureError::file(from))? {
        let entry = entry.map_err(FixtureError::file(from))?;
        if NOT_COPIED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(FixtureError::file(&source))?.is_dir() {
            std::fs::create_dir(&target).map_err(FixtureError::file(&target))?;
            std::fs::set_permissions(&target, PermissionsExt::from_mode(0o700))
                .map_err(FixtureError::file(&target))?;
            give_to(&target, owner)?;
            copy_folder(&source, &target, owner)?;
            continue;
        }
        match std::fs::read(&source) {
            Ok(bytes) => put(&target, &bytes, owner)?,
            // The server works on: files come and go, and the log makes up for it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FixtureError::file(source)(error)),
        }
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8], owner: Option<User>) -> Result<(), FixtureError> {
    std::fs::write(path, bytes).map_err(FixtureError::file(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).map_err(FixtureError::file(path))?;
    give_to(path, owner)
}

fn give_to(path: &Path, owner: Option<User>) -> Result<(), FixtureError> {
    match owner {
        Some(user) => chown(path, Some(user.uid), Some(user.gid)).map_err(FixtureError::file(path)),
        None => Ok(()),
    }
}
