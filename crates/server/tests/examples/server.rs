//! The server itself, workspaces and credentials.

use hapax_server::identity::INSTALLATION;
use serde_json::json;

use super::recorder::{Recorder, call};
use super::support::{Role, TestServer};

#[tokio::test]
async fn the_examples_of_workspaces_and_credentials_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let installation = server.key(INSTALLATION, Role::Admin).await;
    let mut examples = Recorder::new(&server, "admin");
    let workspace = json!({ "name": "initech", "description": "The payroll team." });
    examples.send(call("create_workspace").by(&installation).body(workspace.clone())).await;
    examples.send(call("create_workspace").by(&installation).body(workspace)).await;
    examples.send(call("list_workspaces").by(&installation).query("limit=1")).await;
    examples.send(call("get_workspace").at("acme")).await;
    let asked = json!({ "name": "console", "role": "operator", "requester": "maria" });
    let issued = examples.send(call("create_credential").body(asked)).await;
    let id = issued["credential"]["id"].as_str().unwrap().to_owned();
    examples.send(call("list_credentials")).await;
    examples.send(call("get_credential").at(&id)).await;
    examples.send(call("rotate_credential").at(&id).body(json!({}))).await;
    let reason = json!({ "reason": "Maria left the team." });
    examples.send(call("revoke_credential").at(&id).body(reason)).await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_the_server_are_what_it_answers() {
    let server = TestServer::memory().await;
    let watcher = server.key(INSTALLATION, Role::Viewer).await;
    let mut examples = Recorder::new(&server, "server");
    examples.send(call("get_home").by("").header("accept", "application/json")).await;
    examples.send(call("get_health").by("")).await;
    examples.send(call("get_readiness").by("")).await;
    examples.send(call("get_node").without_answer()).await;
    examples.send(call("list_leases").query("limit=10")).await;
    examples.send(call("get_metrics").by(&watcher)).await;
    for long in [
        "get_openapi",
        "get_docs",
        "get_definition_schema",
        "get_source_schema",
        "get_entity_workflow_schema",
    ] {
        examples.send(call(long).by("").without_answer()).await;
    }
    examples.finish();
}
