//! One data folder and the server on it.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::base_backup;
use crate::binaries::Binaries;
use crate::error::FixtureError;
use crate::server::Shutdown;

/// How often another port is tried if the free one has been taken.
const PORTS_TO_TRY: usize = 5;
const SUPERUSER: &str = "postgres";

/// One data folder, and where its server listens.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    binaries: Binaries,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) password: String,
}

impl Cluster {
    /// Makes a data folder and starts the server.
    pub(crate) fn create(folder: &Path, settings: &[(String, String)]) -> Result<Self, FixtureError> {
        let binaries = Binaries::find()?;
        let folder = folder.canonicalize().map_err(FixtureError::file(folder))?;
        let password: String = random_text()?;
        let mut cluster = Cluster { binaries, folder, port: free_port()?, password };
        for part in ["data", "socket"] {
            cluster.make_folder(part)?;
        }
        let password_file = cluster.folder.join("password");
        std::fs::write(&password_file, &cluster.password).map_err(FixtureError::file(&password_file))?;
        if let Some(user) = cluster.binaries.user() {
            chown(&password_file, Some(user.uid), Some(user.gid))
                .map_err(FixtureError::file(&password_file))?;
        }
        let (data, pwfile) = (cluster.data(), password_file.display().to_string());
        // Connections over the socket, in the server's own folder, are trusted; others need the password.
        cluster.binaries.run(
            "initdb",
            &cluster.folder,
            &[
                "--pgdata",
                &data,
                "--username",
                SUPERUSER,
                "--pwfile",
                &pwfile,
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            ],
        )?;
        for _ in 1..PORTS_TO_TRY {
            cluster.configure(settings)?;
            match cluster.start() {
                Err(FixtureError::Command { output, .. }) if output.contains("already in use") => {
                    cluster.port = free_port()?;
                }
                started => return started.map(|()| cluster),
            }
        }
        cluster.configure(settings)?;
        cluster.start().map(|()| cluster)
    }

    /// Copies the data of a running server and starts a standby on the copy, which follows it under the name `standby`.
    pub(crate) fn follow(primary: &Cluster, folder: &Path) -> Result<Self, FixtureError> {
        let folder = folder.canonicalize().map_err(FixtureError::file(folder))?;
        let mut standby = Cluster { folder, port: free_port()?, ..primary.clone() };
        for part in ["data", "socket"] {
            standby.make_folder(part)?;
        }
        let socket = primary.folder.join("socket").display().to_string();
        base_backup::take(
            &primary.url("postgres"),
            &primary.folder.join("data"),
            &standby.folder.join("data"),
        )?;
        let signal = standby.folder.join("data/standby.signal");
        std::fs::write(&signal, "").map_err(FixtureError::file(&signal))?;
        standby.give_to_server(&standby.folder.join("data"))?;
        let port = primary.port;
        let leader = format!("host='{socket}' port={port} user={SUPERUSER} application_name=standby");
        let settings = [("primary_conninfo".to_owned(), leader)];
        for _ in 1..PORTS_TO_TRY {
            standby.configure(&settings)?;
            match standby.start() {
                Err(FixtureError::Command { output, .. }) if output.contains("already in use") => {
                    standby.port = free_port()?;
                }
                started => return started.map(|()| standby),
            }
        }
        standby.configure(&settings)?;
        standby.start().map(|()| standby)
    }

    /// Ends recovery: the standby takes writes from now on.
    pub(crate) fn promote(&self) -> Result<(), FixtureError> {
        let data = self.data();
        self.binaries.run("pg_ctl", &self.folder, &["--pgdata", &data, "--wait", "promote"])
    }

    /// Sets what takes no restart.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), FixtureError> {
        self.configure(&[(name.to_owned(), value.to_owned())])?;
        self.binaries.run("pg_ctl", &self.folder, &["--pgdata", &self.data(), "reload"])
    }

    /// Sends a signal to all processes of the server, the main one first.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let main = self.pid();
        let others = self.processes().into_iter().filter(|pid| Some(*pid) != main);
        for pid in main.into_iter().chain(others) {
            // One that is gone by itself needs no signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// A cluster that another process made.
    pub(crate) fn known(folder: PathBuf, port: u16, password: String) -> Result<Self, FixtureError> {
        Ok(Cluster { binaries: Binaries::find()?, folder, port, password })
    }

    fn make_folder(&self, name: &str) -> Result<(), FixtureError> {
        let path = self.folder.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(FixtureError::file(&path))?;
        match self.binaries.user() {
            Some(user) => chown(&path, Some(user.uid), Some(user.gid)).map_err(FixtureError::file(&path)),
            None => Ok(()),
        }
    }

    /// Makes the server's user the owner of a folder and everything in it.
    fn give_to_server(&self, path: &Path) -> Result<(), FixtureError> {
        let Some(user) = self.binaries.user() else { return Ok(()) };
        chown(path, Some(user.uid), Some(user.gid)).map_err(FixtureError::file(path))?;
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(FixtureError::file(path))? {
                self.give_to_server(&entry.map_err(FixtureError::file(path))?.path())?;
            }
        }
        Ok(())
    }

    /// Settings that come later in the file win, so a second call replaces the first.
    fn configure(&self, settings: &[(String, String)]) -> Result<(), FixtureError> {
        let path = self.folder.join("data/postgresql.conf");
        let socket = self.folder.join("socket").display().to_string();
        let ours = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", self.port.to_string()),
            ("unix_socket_directories", socket),
            ("max_connections", "200".to_owned()),
            ("fsync", "on".to_owned()),
        ];
        let ours = ours.iter().map(|(name, value)| (*name, value.as_str()));
        let given = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let lines: String = ours
            .chain(given)
            .map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''")))
            .collect();
        let file = std::fs::File::options().append(true).open(&path);
        file.and_then(|mut file| file.write_all(lines.as_bytes())).map_err(FixtureError::file(&path))
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn start(&self) -> Result<(), FixtureError> {
        let log = self.folder.join("data/server.log").display().to_string();
        let data = self.data();
        let arguments = ["--pgdata", &data, "--log", &log, "--wait", "--timeout=60", "start"];
        self.binaries.run("pg_ctl", &self.folder, &arguments).map_err(|error| match error {
            FixtureError::Command { command, status, output } => {
                FixtureError::Command { command, status, output: output + "\n" + &last_lines(&self.log()) }
            }
            other => other,
        })
    }

    pub(crate) fn stop(&self, how: Shutdown) -> Result<(), FixtureError> {
        let (data, mode) = (self.data(), how.mode());
        self.binaries.run("pg_ctl", &self.folder, &["--pgdata", &data, "--mode", mode, "--wait", "stop"])
    }

    /// Kills the server without a chance to tidy up, and waits until all its processes are gone.
    pub(crate) fn kill(&self) {
        let Some(pid) = self.pid() else { return };
        // If it is gone by itself, that is as well.
        let _ = kill_process(pid, Signal::KILL);
        // The others notice, but not while they are frozen.
        for frozen in self.processes().into_iter().filter(|pid| is_stopped(*pid)) {
            let _ = kill_process(frozen, Signal::KILL);
        }
        while !self.processes().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Its number may stay taken by a dead process that nobody has waited for; a new server would give way to it.
        let socket_lock = format!("socket/.s.PGSQL.{}.lock", self.port);
        for left_behind in ["data/postmaster.pid", &socket_lock] {
            let _ = std::fs::remove_file(self.folder.join(left_behind));
        }
    }

    /// All processes of a server work in its data folder; a dead one works nowhere.
    fn processes(&self) -> Vec<Pid> {
        let data = self.folder.join("data");
        let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let ours = processes.filter(|process| {
            std::fs::read_link(process.path().join("cwd")).is_ok_and(|works_in| works_in == data)
        });
        let numbers = ours.filter_map(|process| process.file_name().to_str()?.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    }

    /// The server's main process, if it runs. The number in the file may belong to another process by now; the server
    /// works in its data folder.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let file = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?;
        let number: i32 = file.lines().next()?.trim().parse().ok()?;
        let works_in = std::fs::read_link(format!("/proc/{number}/cwd")).ok()?;
        (works_in == self.folder.join("data")).then(|| Pid::from_raw(number)).flatten()
    }

    /// The server's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("data/server.log")).unwrap_or_default()
    }

    /// Over the socket, without a password.
    pub(crate) fn url(&self, database: &str) -> String {
        let socket = self.folder.join("socket").display().to_string();
        format!("postgres://{SUPERUSER}@{}:{}/{database}", percent_encode(&socket), self.port)
    }

    /// Over TCP, with the password.
    pub(crate) fn tcp_url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }
}

fn is_stopped(pid: Pid) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:\tT"))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(crate) fn free_port() -> Result<u16, FixtureError> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(FixtureError::file("127.0.0.1:0"))
}

fn random_text() -> Result<String, FixtureError> {
    use std::io::Read;
    let source = "/dev/urandom";
    let mut bytes = [0; 16];
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(FixtureError::file(source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
