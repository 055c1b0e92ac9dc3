//! Workspaces, credentials, and where a key comes from.

use std::os::unix::fs::PermissionsExt;

use hapax_api::Role;
use serde_json::json;

use crate::remote::support::{ECHO, TestServer, command, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_and_its_keys_live_and_end() {
    let server = TestServer::start().await;
    let installer = server.installer().await;
    let make = ["admin", "workspaces", "create", "emea", "--description", "Europe"];
    assert_eq!(server.hapax_as(&installer, &make).await.ok().out, "emea is made\n");
    assert_eq!(server.hapax_as(&installer, &make).await.ok().out, "emea was there already\n");
    let listed = server.hapax_as(&installer, &["admin", "workspaces", "list"]).await.ok().out;
    assert!(listed.contains("emea") && listed.contains("Europe"), "{listed}");
    server.hapax(&["admin", "workspaces", "list"]).await.exits(4);

    let make = ["admin", "credentials", "create", "billing", "--role", "admin", "--workspace", "emea"];
    let issued = server.hapax_as(&installer, &make).await.ok();
    assert!(issued.err.contains("shown only once"), "{}", issued.err);
    let part = |name: &str, text: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}")).to_owned();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let (id, key) = (part("id", &issued.out), part("api key", &issued.out));
    assert_eq!(
        server.hapax_as(&key, &["admin", "workspaces", "show", "emea", "--json"]).await.ok().json()["id"],
        "emea"
    );
    // Resources of another workspace are not found.
    server.hapax_as(&key, &["admin", "workspaces", "show", "acme"]).await.exits(5);
    let listed = server.hapax_as(&key, &["admin", "credentials", "list"]).await.ok().out;
    assert!(listed.contains(&id) && !listed.contains(&key), "{listed}");

    let shown = server.hapax_as(&key, &["admin", "credentials", "show", &id, "--json"]).await.ok();
    assert_eq!((&shown.json()["id"], &shown.json()["role"]), (&json!(id), &json!("admin")));
    assert!(!shown.out.contains(&key), "{}", shown.out);
    let table = server.hapax_as(&key, &["admin", "credentials", "show", &id]).await.ok().out;
    assert!(table.contains(&id) && table.contains("billing"), "{table}");
    server.hapax(&["admin", "credentials", "show", &id]).await.exits(5);

    let rotate = ["admin", "credentials", "rotate", &id];
    server.hapax_as(&key, &rotate).await.exits(2);
    let rotated = server.hapax_as(&key, &[&rotate[..], &["--yes", "--json"]].concat()).await.ok().json();
    let new_key = rotated["apiKey"].as_str().unwrap();
    server.hapax_as(&key, &["runs", "list"]).await.exits(4);
    server.hapax_as(new_key, &["runs", "list"]).await.ok();
    let other = server
        .hapax_as(new_key, &["admin", "credentials", "create", "ci", "--role", "viewer", "--json"])
        .await
        .ok()
        .json();
    let other_id = other["credential"]["id"].as_str().unwrap();
    server
        .hapax_as(new_key, &["admin", "credentials", "revoke", other_id, "--yes", "--reason", "a test"])
        .await
        .ok();
    server.hapax_as(other["apiKey"].as_str().unwrap(), &["runs", "list"]).await.exits(4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_comes_from_a_file_or_from_standard_input() {
    let server = TestServer::start().await;
    server.upload(ECHO).await;
    let path = server.file("key", &format!("{}\n", server.admin));
    let list = ["workflows", "list", "--server", &server.url, "--api-key-file"];
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let quiet = run(command(&[&list[..], &[&path]].concat())).await.ok();
    assert_eq!(quiet.err, "");
    // RELIABILITY, CLI: a credential file that others can read.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let warned = run(command(&[&list[..], &[&path]].concat())).await.ok();
    assert!(warned.err.contains("chmod 600") && !warned.err.contains(&server.admin), "{}", warned.err);
    assert_eq!(warned.out, quiet.out);
    let mut from_stdin = command(&[&list[..], &["-"]].concat());
    from_stdin.stdin(std::fs::File::open(&path).unwrap());
    assert_eq!(run(from_stdin).await.ok().out, quiet.out);
    // Nobody can be asked on a standard input that holds the key.
    run(command(&[&list[..], &["-"]].concat())).await.exits(4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_is_told_which_may() {
    let server = TestServer::start().await;
    let viewer = server.key("acme", Role::Viewer).await;
    let file = server.file("echo.json", ECHO);
    let refused = server.hapax_as(&viewer, &["apply", &file]).await.exits(4);
    assert!(refused.err.contains("forbidden") && refused.err.contains("admin"), "{}", refused.err);
    let echo = server.upload(ECHO).await;
    assert_eq!(
        server.hapax_as(&viewer, &["workflows", "show", &echo, "--json"]).await.ok().json()["id"],
        json!(echo)
    );
}
