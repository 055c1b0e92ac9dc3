//! Profiles: who is logged in where, and what errors say about it.

use std::os::unix::fs::PermissionsExt;

use tokio::process::Command;

use crate::remote::support::{Ran, TestServer, command, run};

/// A command that reads its configuration from `folder`.
fn command_of(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("XDG_CONFIG_HOME", folder.path());
    command
}

async fn hapax(folder: &tempfile::TempDir, arguments: &[&str]) -> Ran {
    run(command_of(folder, arguments)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_stored_for_its_owner_alone_and_used_from_then_on() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let key = server.file("key", &server.admin);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    hapax(&home, &["runs", "list"]).await.exits(4);
    let login = ["login", "--server", &server.url, "--api-key-file", &key];
    let done = hapax(&home, &login).await.ok();
    assert!(done.out.contains(&server.url) && !format!("{done:?}").contains(&server.admin), "{done:?}");
    let file = home.path().join("hapax/profiles.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    hapax(&home, &["runs", "list"]).await.ok();

    hapax(&home, &[&login[..], &["--profile", "staging"]].concat()).await.ok();
    let listed = hapax(&home, &["profiles", "list"]).await.ok().out;
    assert!(listed.contains("default") && listed.contains("staging"), "{listed}");
    assert!(!listed.contains(&server.admin), "keys are not shown: {listed}");
    let mut named = command_of(&home, &["runs", "list"]);
    named.env("HAPAX_PROFILE", "default").env("HAPAX_API_KEY", "hpx_wrong");
    run(named).await.ok();
    hapax(&home, &["runs", "list", "--profile", "nobody"]).await.exits(5);
    hapax(&home, &["profiles", "remove", "staging"]).await.ok();
    hapax(&home, &["profiles", "remove", "staging"]).await.exits(5);
    hapax(&home, &["runs", "list", "--profile", "default"]).await.ok();
    hapax(&home, &["runs", "list"]).await.exits(4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profiles_key_goes_to_no_other_server() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut login = command_of(&home, &["login", "--server", &server.url]);
    login.env("HAPAX_API_KEY", &server.admin);
    run(login).await.ok();
    let elsewhere = hapax(&home, &["runs", "list", "--server", "http://127.0.0.1:1"]).await.exits(4);
    assert!(elsewhere.err.contains("HAPAX_API_KEY"), "{}", elsewhere.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_does_not_work_is_not_stored() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut login = command_of(&home, &["login", "--server", &server.url]);
    login.env("HAPAX_API_KEY", "hpx_wrong");
    run(login).await.exits(4);
    assert!(!home.path().join("hapax/profiles.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_server_and_where_the_key_came_from() {
    let server = TestServer::start().await;
    let wrong = server.hapax_as("hpx_wrong", &["runs", "list"]).await.exits(4);
    assert!(
        wrong.err.contains("came from HAPAX_API_KEY") && wrong.err.contains("hapax login"),
        "{}",
        wrong.err
    );
    let file = server.file("wrong-key", "hpx_wrong");
    let wrong = server.hapax(&["runs", "list", "--api-key-file", &file]).await.exits(4);
    assert!(wrong.err.contains(&format!("the file {file}")), "{}", wrong.err);

    let mut away = command(&["runs", "list", "--server", "http://127.0.0.1:1", "--retry-for", "0s"]);
    away.env("HAPAX_API_KEY", "hpx_x");
    let away = run(away).await.exits(3);
    assert!(away.err.contains("http://127.0.0.1:1, from --server"), "{}", away.err);
    assert!(away.err.contains("HAPAX_SERVER") && away.err.contains("hapax dev"), "{}", away.err);
}
