//! `hapax serve` as a process of its own, with a credential for programs.

use std::path::PathBuf;

use hapax::Hapax;
use rustix::process::Signal;
use serde_json::Value;

use super::support::dev::hapax;
use super::support::serve::Serve;

pub struct TestServer {
    process: Option<Serve>,
    folder: tempfile::TempDir,
    pub url: String,
    pub key: String,
}

fn serve(folder: &std::path::Path, listen: &str) -> Serve {
    let mut command = hapax();
    let store = format!("sqlite:{}", folder.join("hapax.db").display());
    command.args(["serve", "--listen", listen, "--log", "error", "--lease", "2s", "--store", &store]);
    Serve::start(command.arg("--key-file").arg(folder.join("root.key")))
}

impl TestServer {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = serve(folder.path(), "127.0.0.1:0");
        let url = format!("http://{}", process.address());
        process.until_said("may set it up is in");
        let root = std::fs::read_to_string(folder.path().join("root.key")).unwrap().trim().to_owned();
        call(&url, &root, &["admin", "workspaces", "create", "acme", "--json"]);
        let admin =
            ["admin", "credentials", "create", "ada", "--role", "admin", "--workspace", "acme", "--json"];
        let key = call(&url, &root, &admin)["apiKey"].as_str().unwrap().to_owned();
        TestServer { process: Some(process), folder, url, key }
    }

    pub async fn open(&self) -> Hapax {
        Hapax::builder(&self.url).api_key(&self.key).open().await.unwrap()
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn kill(&mut self) {
        let process = self.process.take().unwrap();
        process.signal(Signal::KILL);
        process.end();
    }

    /// Serves again, on the same file and address.
    pub fn restart(&mut self) {
        let process = serve(self.folder.path(), self.url.trim_start_matches("http://"));
        process.address();
        self.process = Some(process);
    }
}

/// The JSON that a command prints.
fn call(url: &str, key: &str, arguments: &[&str]) -> Value {
    let mut command = hapax();
    let output = command.env("HAPAX_SERVER", url).env("HAPAX_API_KEY", key).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
