//! The key of the first start, and the way back in when it is lost.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use support::dev::hapax;
use support::serve::Serve;

fn serve(store: &str, key_file: &Path) -> (Serve, String) {
    let mut command = hapax();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--store", store]);
    let server = Serve::start(command.arg("--key-file").arg(key_file));
    let url = format!("http://{}", server.address());
    (server, url)
}

fn call(url: &str, key_file: &Path, arguments: &[&str]) -> Output {
    let mut command = hapax();
    command.env("HAPAX_SERVER", url).args(arguments).arg("--api-key-file").arg(key_file);
    command.output().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Losing the first key ended administration, and the documented redirect left it readable by all.
#[test]
fn whoever_has_the_store_gets_back_in_and_the_audit_log_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let (first, new) = (folder.path().join("first.key"), folder.path().join("new.key"));
    let (server, url) = serve(&store, &first);
    server.until_said("may set it up is in");
    assert_eq!(mode(&first), 0o600);
    assert!(call(&url, &first, &["admin", "workspaces", "create", "acme"]).status.success());
    let recover = |key_file: &Path, store: &str| {
        let mut command = hapax();
        command.args([
            "admin",
            "recover",
            "--by",
            "ada",
            "--reason",
            "the first key was lost",
            "--revoke-others",
        ]);
        command.args(["--store", store]).arg("--key-file").arg(key_file).output().unwrap()
    };
    let busy = recover(&new, &store);
    assert!(!busy.status.success() && !new.exists(), "a server has the file: {busy:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));

    let absent = recover(&new, "sqlite:/nowhere/hapax.db");
    assert!(
        !absent.status.success() && String::from_utf8_lossy(&absent.stderr).contains("there is no store")
    );
    let taken = recover(&first, &store);
    assert!(String::from_utf8_lossy(&taken.stderr).contains("already exists"), "{taken:?}");
    let recovered = recover(&new, &store);
    assert!(recovered.status.success(), "{recovered:?}");
    assert_eq!((mode(&new), recovered.stdout.as_slice()), (0o600, &b""[..]), "the key is in the file alone");

    let (server, url) = serve(&store, &folder.path().join("third.key"));
    let workspaces = call(&url, &new, &["admin", "workspaces", "list"]);
    assert!(String::from_utf8_lossy(&workspaces.stdout).contains("acme"), "{workspaces:?}");
    let refused = call(&url, &first, &["admin", "workspaces", "list"]);
    assert!(!refused.status.success(), "the lost key is no good any more: {refused:?}");
    let audit = call(&url, &new, &["audit", "--json"]);
    let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
    for words in ["recovered: the first key was lost", "revoked: the first key was lost", "ada"] {
        assert!(audit.contains(words), "{words}: {audit}");
    }
    assert!(!folder.path().join("third.key").exists(), "no first key is made again");
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}
