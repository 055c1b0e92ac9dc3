//! The audit log in a file, as a chain of hashes.

use rusqlite::Connection;

use crate::remote::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_audit_log_shows_what_was_changed_in_the_store_afterwards() {
    let server = TestServer::start().await;
    let file = server.folder.path().join("audit.jsonl");
    let file = file.to_str().unwrap();
    let export = ["audit", "export", file, "--lag", "0s"];
    let first = server.hapax(&export).await.ok().out;
    assert!(!first.starts_with("0 new"), "{first}");
    server.key("acme", hapax_api::Role::Viewer).await;
    let second = server.hapax(&export).await.ok().out;
    assert!(second.starts_with("1 new entries"), "only what is new is appended: {second}");
    assert!(server.hapax(&export).await.ok().out.starts_with("0 new entries"));
    let verify = ["audit", "verify", file];
    let whole = server.hapax(&verify).await.ok().out;
    assert!(whole.contains("all unchanged"), "{whole}");
    let head = whole.trim().rsplit(' ').next().unwrap().to_owned();
    server.hapax(&["audit", "verify", file, "--head", &head]).await.ok();
    server.hapax(&["audit", "verify", file, "--head", "another"]).await.exits(1);

    let store = Connection::open(server.folder.path().join("hapax.db")).unwrap();
    let change =
        "UPDATE hapax_notes SET body = replace(body, 'created', 'altered') WHERE body LIKE '%credential%'";
    assert!(store.execute(change, []).unwrap() > 0);
    let changed = server.hapax(&verify).await.exits(1);
    assert!(changed.out.contains("changed since it was exported"), "{changed:?}");
    assert!(store.execute("DELETE FROM hapax_notes WHERE body LIKE '%altered%'", []).unwrap() > 0);
    let deleted = server.hapax(&verify).await.exits(1);
    assert!(deleted.out.contains("no longer in the audit log"), "{deleted:?}");
    // The file itself is as it was.
    server.hapax(&["audit", "verify", file, "--offline"]).await.ok();
    let text = std::fs::read_to_string(file).unwrap().replacen("created", "altered", 1);
    std::fs::write(file, text).unwrap();
    let forged = server.hapax(&["audit", "verify", file, "--offline"]).await.exits(1);
    assert!(forged.err.contains("line 1"), "{forged:?}");
    server.hapax(&export).await.exits(1);
}
