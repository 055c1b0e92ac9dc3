//! Base backup of a running server through SQL. Not every package of PostgreSQL has `pg_basebackup`.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::FixtureError;
use crate::server::with_client;

/// Files of the running server that are not data.
const LEFT_OUT: [&str; 3] = ["postmaster.pid", "postmaster.opts", "server.log"];

/// Copies the data folder of the server at `url` into the empty folder `copy`, for a standby of that server.
pub(crate) fn take(url: &str, data: &Path, copy: &Path) -> Result<(), FixtureError> {
    let label = with_client(url, async |client| {
        let version: i32 =
            client.query_one("SELECT current_setting('server_version_num')::int4", &[]).await?.get(0);
        let (begin, end) = match version < 150_000 {
            true => (
                "SELECT pg_start_backup('standby', true, false)",
                "SELECT labelfile FROM pg_stop_backup(false, false)",
            ),
            false => {
                ("SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)")
            }
        };
        client.batch_execute(begin).await?;
        copy_folder(data, copy)?;
        Ok(client.query_one(end, &[]).await?.get::<_, String>(0))
    })?;
    let file = copy.join("backup_label");
    std::fs::write(&file, label).map_err(FixtureError::file(&file))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), FixtureError> {
    for entry in std::fs::read_dir(from).map_err(FixtureError::file(from))? {
        let entry = entry.map_err(FixtureError::file(from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if path.is_dir() {
            std::fs::create_dir(&copy).map_err(FixtureError::file(&copy))?;
            copy_folder(&path, &copy)?;
            continue;
        }
        match std::fs::copy(&path, &copy) {
            Ok(_) => {}
            // The server removes files while it runs; replaying the WAL repairs the copy.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FixtureError::file(&path)(error)),
        }
    }
    Ok(())
}
