//! A PgBouncer in front of a server.

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::find_server_user;
use crate::cluster::free_port;
use crate::error::FixtureError;
use crate::server::Server;

/// Longest wait until it listens.
const LISTEN_WITHIN: Duration = Duration::from_secs(10);
/// Debian puts it where only root looks by default.
const BESIDE_PATH: &str = "/usr/sbin";

/// Stops PgBouncer when standard input ends, which happens however the test process ends.
const WATCHED: &str = r#""$1" "$2" & pid=$!; read -r _; kill "$pid"; wait "$pid""#;

/// A PgBouncer that one test starts; gone with it.
#[derive(Debug)]
pub struct PgBouncer {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl PgBouncer {
    /// Starts one before `server`, with further lines of its configuration such as `pool_mode = transaction`.
    pub fn start(server: &Server, lines: &str) -> Result<PgBouncer, FixtureError> {
        let program = find_program().ok_or(FixtureError::NoBouncer)?;
        let folder = tempfile::Builder::new().prefix("hapax-bouncer-").tempdir();
        let folder = folder.map_err(FixtureError::file(std::env::temp_dir()))?;
        let port = free_port()?;
        let (socket, backend) = (server.socket_folder(), server.port());
        let log = folder.path().join("bouncer.log");
        let config = format!(
            "[databases]\n* = host={} port={backend} user=postgres\n\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\nlogfile = {}\n{lines}\n",
            socket.display(),
            log.display()
        );
        let path = folder.path().join("bouncer.ini");
        std::fs::write(&path, config).map_err(FixtureError::file(&path))?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED, "bouncer"]).arg(program).arg(&path).current_dir(folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        if let Some(user) = find_server_user()? {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700))
                .map_err(FixtureError::file(folder.path()))?;
            for path in [folder.path(), &path] {
                chown(path, Some(user.uid), Some(user.gid)).map_err(FixtureError::file(path))?;
            }
            command.uid(user.uid).gid(user.gid);
        }
        let started = command.spawn();
        let process = started.map_err(|cause| FixtureError::NotRun { command: "pgbouncer".into(), cause })?;
        let bouncer = PgBouncer { process, port, folder };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > LISTEN_WITHIN {
                return Err(FixtureError::NotListening { log: bouncer.log() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(bouncer)
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("bouncer.log")).unwrap_or_default()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // The shell reads the end of its input, and ends the other.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from(BESIDE_PATH)]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| Path::is_file(program))
}
