//! The server that all tests of a build share, whichever processes they run in.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::binaries::named_folder;
use crate::cluster::Cluster;
use crate::error::FixtureError;
use crate::server::make_folder;
use crate::server_guard::{self, Locks};

/// How long the server waits for the next test process.
const LINGER: Duration = Duration::from_secs(5);

/// Nothing is flushed. Tests that share the server assert what other connections see, which does not depend on it; what survives
/// a server that dies is asserted on a [`crate::Server`], which flushes as one in production does.
const HASTY: [(&str, &str); 1] = [("fsync", "off")];

/// This process's use of the shared server.
#[derive(Debug)]
struct ServerUse {
    cluster: Cluster,
    /// The server stays as long as this process.
    _in_use: File,
}

/// The shared server, started if it is not there.
pub(crate) fn cluster() -> Result<&'static Cluster, FixtureError> {
    static SHARED: OnceLock<ServerUse> = OnceLock::new();
    if let Some(shared) = SHARED.get() {
        return Ok(&shared.cluster);
    }
    // Two threads may both join; the second one's use is dropped.
    let joined = join()?;
    Ok(&SHARED.get_or_init(|| joined).cluster)
}

fn join() -> Result<ServerUse, FixtureError> {
    let home = home()?;
    std::fs::create_dir_all(&home).map_err(FixtureError::file(&home))?;
    let locks = Locks::in_folder(&home);
    let _guard = locks.take_guard()?;
    let in_use = locks.use_it()?;
    let place = home.join("place");
    if let Some(cluster) = read_place(&place)? {
        if cluster.pid().is_some() {
            // If the keeper was killed, this is the new one.
            server_guard::spawn(&cluster.folder, &locks, LINGER)?;
            return Ok(ServerUse { cluster, _in_use: in_use });
        }
        // Nothing runs on it, so there is nothing to keep.
        let _ = std::fs::remove_dir_all(&cluster.folder);
    }
    let folder = make_folder()?;
    server_guard::spawn(&folder, &locks, LINGER)?;
    let settings = HASTY.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let cluster = Cluster::create(&folder, &settings)?;
    let text = format!("{}\n{}\n{}\n", folder.display(), cluster.port, cluster.password);
    std::fs::write(&place, text).map_err(FixtureError::file(&place))?;
    Ok(ServerUse { cluster, _in_use: in_use })
}

/// Beside the test programs, so that each build has a server of its own; and one for each PostgreSQL that the environment names.
fn home() -> Result<PathBuf, FixtureError> {
    let program = std::env::current_exe().map_err(FixtureError::file("the program"))?;
    let build = program.ancestors().nth(2).unwrap_or(&program);
    Ok(build.join(match named_folder() {
        None => "postgres-fixture".to_owned(),
        Some(folder) => {
            let mut hash = DefaultHasher::new();
            folder.hash(&mut hash);
            format!("postgres-fixture-{:016x}", hash.finish())
        }
    }))
}

fn read_place(place: &PathBuf) -> Result<Option<Cluster>, FixtureError> {
    let Ok(text) = std::fs::read_to_string(place) else { return Ok(None) };
    let mut lines = text.lines();
    let (Some(folder), Some(port), Some(password)) = (lines.next(), lines.next(), lines.next()) else {
        return Ok(None);
    };
    let Ok(port) = port.parse() else { return Ok(None) };
    Cluster::known(PathBuf::from(folder), port, password.to_owned()).map(Some)
}
