//! `hapax serve` as a process: its first start on PostgreSQL, a second node, a role that only runs, a backup, its end.

use crate::support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::rc::Rc;

use hapax_postgres_fixture::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::dev::{Dev, hapax};

const ECHO: &str = r#"{"name":"echo","version":1,"steps":[{"name":"say","type":"task","task":"echo"}]}"#;

/// A server for production, on a port of its own.
struct Serve {
    process: Child,
    output: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
    /// Output of the server until it served.
    said: String,
    url: String,
}

impl Serve {
    fn start(store: &str) -> Self {
        let mut command = hapax();
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--store", store]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(" on http://") {
            assert_ne!(errors.read_line(&mut said).unwrap(), 0, "it serves: {said}");
        }
        let url = said.trim_end().rsplit(' ').next().unwrap().to_owned();
        Serve { process, output, errors, said, url }
    }

    /// The key of the first start.
    fn key(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The JSON that a command against it prints.
    fn hapax(&self, key: &str, arguments: &[&str]) -> Value {
        let mut command = hapax();
        command.args(arguments).env("HAPAX_SERVER", &self.url).env("HAPAX_API_KEY", key);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// A workspace with an admin, set up by the key of the first start; the admin's key.
    fn set_up(&self, key: &str) -> String {
        self.hapax(key, &["admin", "workspaces", "create", "acme", "--json"]);
        let admin =
            ["admin", "credentials", "create", "admin", "--role", "admin", "--workspace", "acme", "--json"];
        self.hapax(key, &admin)["apiKey"].as_str().unwrap().to_owned()
    }

    /// Runs a document to its end; the run.
    fn run_once(&self, admin: &str, folder: &tempfile::TempDir) -> String {
        let file = folder.path().join("echo.json");
        std::fs::write(&file, ECHO).unwrap();
        let definition = self.hapax(admin, &["apply", file.to_str().unwrap(), "--json"]);
        let definition = definition["id"].as_str().unwrap();
        let started = self.hapax(admin, &["start", definition, "--key", "k", "--json"]);
        let run = started["run"]["id"].as_str().unwrap().to_owned();
        self.hapax(admin, &["runs", "result", &run, "--wait", "30s"]);
        run
    }

    fn status_of(&self, path: &str) -> String {
        let url = format!("{}{path}", self.url);
        let asked = Command::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &url]).output();
        String::from_utf8(asked.unwrap().stdout).unwrap()
    }

    /// Asks it to stop; its exit code and what it wrote since, on either stream.
    fn stop(mut self) -> (Option<i32>, String, String) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let (mut output, mut errors) = (String::new(), String::new());
        self.errors.read_to_string(&mut errors).unwrap();
        self.output.read_to_string(&mut output).unwrap();
        (self.process.wait().unwrap().code(), output, errors)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_on_postgres_shows_the_key_that_sets_it_up_and_a_second_node_shows_none() {
    let (database, folder) = (Database::empty().await.unwrap(), tempfile::tempdir().unwrap());
    let mut first = Serve::start(&database.tcp_url());
    let key = first.key();
    assert!(key.starts_with("hpx_"), "{key}");
    assert!(first.said.contains("serving postgres"), "{}", first.said);
    let admin = first.set_up(&key);
    let run = first.run_once(&admin, &folder);
    assert_eq!((first.status_of("/healthz"), first.status_of("/readyz")), ("200".into(), "200".into()));

    let second = Serve::start(&database.tcp_url());
    assert_eq!(second.hapax(&admin, &["runs", "show", &run, "--json"])["run"]["status"], "COMPLETED");
    let (code, output, errors) = second.stop();
    assert_eq!((code, output.as_str()), (Some(0), ""), "no key is shown: {errors}");
    assert!(errors.contains("stopped in good order"), "{errors}");
    let (code, output, errors) = first.stop();
    assert_eq!((code, output.as_str()), (Some(0), ""), "the key was shown this once: {errors}");
}

/// RELIABILITY, database: the role that migrates is not the role that runs. The grants come from
/// docs/operations.md.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_change_tables_serves_once_they_are_there() {
    let (database, folder) = (Database::empty().await.unwrap(), tempfile::tempdir().unwrap());
    let role = format!("runner_{}", database.name());
    let page = include_str!("../../../docs/operations.md");
    let grants = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let admin = database.connect().await.unwrap();
    let owned = database.tcp_url();
    let mut migrate = hapax();
    assert!(migrate.args(["admin", "migrate", "--store", &owned]).output().unwrap().status.success());
    admin.batch_execute(&grants.replace("runner", &role)).await.unwrap();

    let (scheme, rest) = owned.split_once("://").unwrap();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let store = format!("{scheme}://{role}:change-me@{place}");
    let mut server = Serve::start(&store);
    assert!(!server.said.contains("change-me"), "{}", server.said);
    let key = server.key();
    let workspace_admin = server.set_up(&key);
    server.run_once(&workspace_admin, &folder);
    assert_eq!(server.stop().0, Some(0));
    let checked = hapax().args(["admin", "migrate", "--check", "--store", &store]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    admin.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    for forbidden in ["CREATE TABLE hapax.mine (x int)", "DROP TABLE hapax.runs", "TRUNCATE hapax.runs"] {
        assert!(admin.batch_execute(forbidden).await.is_err(), "{forbidden}");
    }
}

/// RELIABILITY, fault 50, as in docs/operations.md: runs in a backup continue, and later runs are
/// gone with their keys.
#[test]
fn a_backup_that_was_taken_while_it_ran_is_served_in_the_place_of_what_was_lost() {
    const AN_HOUR_MS: u64 = 3_600_000;
    let dev = Dev::start();
    let before = dev.create_run("before", AN_HOUR_MS);
    let folder: Rc<tempfile::TempDir> = {
        let file = dev.data().join("hapax.db");
        let backup = dev.data().join("backup.db");
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
        drop(connection);
        dev.create_run("after", AN_HOUR_MS);
        dev.kill()
    };
    let data = folder.path().join("data");
    for gone in ["hapax.db", "hapax.db-wal", "hapax.db-shm"] {
        let _ = std::fs::remove_file(data.join(gone));
    }
    std::fs::rename(data.join("backup.db"), data.join("hapax.db")).unwrap();
    let store = format!("sqlite:{}", data.join("hapax.db").display());
    let checked = hapax().args(["admin", "fsck", "--store", &store]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let dev = Dev::start_in(folder);
    let known = dev.create_run("before", AN_HOUR_MS);
    assert_eq!((&known["created"], &known["run"]["id"]), (&false.into(), &before["run"]["id"]), "{known}");
    assert_eq!(dev.create_run("after", AN_HOUR_MS)["created"], true, "its key is gone with it");
}
