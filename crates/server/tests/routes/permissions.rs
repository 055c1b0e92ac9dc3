//! Permissions: one table for all routes, in the docs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hapax_server::access::Access;
use hapax_server::identity::INSTALLATION;
use hapax_server::list_routes;
use serde_json::json;

use super::support::{Role, TestServer};

fn meaning(access: Access) -> (&'static str, &'static str) {
    match access {
        Access::Open => ("open", "Call routes that need no credential."),
        Access::Read => ("read", "Read what is in the workspace."),
        Access::Operate => (
            "operate",
            "Start and steer runs, settle promises, take entity steps, rule that an effect happened.",
        ),
        Access::Manage => ("manage", "Release keys, override irreversible steps."),
        Access::Reveal => (
            "reveal",
            "See fields that documents mark as sensitive, on request and with a reason. Only credentials that see payloads.",
        ),
        Access::Administer => (
            "administer",
            "Upload, archive and delete definitions, entity workflows and webhook sources; manage subscriptions and credentials.",
        ),
        Access::Work => {
            ("work", "Open worker sessions, and carry out runs, tasks and entity actions as a worker.")
        }
        Access::Watch => ("watch", "Read metrics of all workspaces. Only credentials of the installation."),
        Access::Install => ("install", "Create workspaces. Only credentials of the installation."),
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Permissions\n\n\
         <!-- made from the table of routes: HAPAX_UPDATE=1 cargo nextest run -p hapax-server permissions -->\n\n\
         Every credential has one role. Every route needs one permission. This table says which role has which permission.\n\
         It holds for REST, the command line and everything else that uses the API.\n\n",
    );
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let _ = writeln!(page, "| permission | {} | allows you to |", roles.join(" | "));
    let _ = writeln!(page, "|---|{}---|", "---|".repeat(roles.len()));
    for access in Access::ALL {
        let cells = Role::ALL.map(|role| match (access.allows(role, false), access.allows(role, true)) {
            (true, _) => "yes",
            (false, true) => "installation",
            (false, false) => "no",
        });
        let (name, says) = meaning(access);
        let _ = writeln!(page, "| {name} | {} | {says} |", cells.join(" | "));
    }
    page.push_str(
        "\n\"installation\" means: only if the credential belongs to the workspace of the installation itself. An admin of the\n\
         installation can also create, list, show, rotate and revoke credentials of any workspace: add `?workspace=NAME`.\n\n\
         Some decisions need the role manager beyond the permission of their route: every ruling on a doubt except `happened`,\n\
         and a retry that repeats effects. The answer is then `needs_manager`.\n\n\
         A credential made with `hidesPayloads`, and a person whose rule says `payloads = false`, see `[masked]` in place of\n\
         inputs, outputs and other payloads, whatever their role. Fields that documents mark as sensitive are masked for\n\
         everybody.\n\n\
         The role `worker` is for worker processes. It may make the calls of worker sessions, call open routes, and nothing else.\n\
         Such a credential can be bound to names of workflows, tasks and actions (`mayOffer`, or `--workflow`, `--task` and\n\
         `--action` of `hapax admin credentials create`): calls of sessions that offer another name are `name_not_allowed`.\n\n\
         ## Routes\n",
    );
    for access in Access::ALL {
        let routes: BTreeSet<String> = list_routes()
            .into_iter()
            .filter(|(.., of)| *of == access)
            .map(|(method, path, _)| format!("- `{method} {path}`\n"))
            .collect();
        let _ = write!(page, "\n### {}\n\n{}", meaning(access).0, routes.into_iter().collect::<String>());
    }
    page
}

#[test]
fn the_docs_say_who_may_call_which_route() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md");
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    let on_file = std::fs::read_to_string(file).unwrap_or_default();
    assert!(on_file == page(), "docs/permissions.md is not up to date: run this test with HAPAX_UPDATE=1");
}

/// One role uploads all kinds of documents.
#[test]
fn documents_of_every_kind_are_uploaded_by_the_same_role() {
    let uploads = ["workflow-definitions", "entity-workflows", "webhook-sources"];
    for (method, path, access) in list_routes() {
        if method != "GET" && uploads.iter().any(|kind| path.starts_with(&format!("/api/v1/{kind}"))) {
            assert_eq!(access, Access::Administer, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn an_installation_admin_creates_lists_and_revokes_credentials_of_a_workspace() {
    let server = TestServer::memory().await;
    let installer = server.key(INSTALLATION, Role::Admin).await;
    server.key("globex", Role::Viewer).await;
    let credentials = "/api/v1/credentials";
    let ask = async |method: &str, path: String, key: &str| {
        let body = (method == "POST").then(|| json!({}).to_string());
        server.send(method, &path, body, key, &[]).await
    };
    let body = json!({ "name": "ci", "role": "operator" }).to_string();
    let made =
        server.send("POST", &format!("{credentials}?workspace=globex"), Some(body), &installer, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["credential"]["id"].as_str().unwrap().to_owned();
    let listed = ask("GET", format!("{credentials}?workspace=globex"), &installer).await.json();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"ci"), "{names:?}");
    let shown = ask("GET", format!("{credentials}/{id}?workspace=globex"), &installer).await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    for path in [format!("{credentials}?workspace=globex"), format!("{credentials}/{id}?workspace=globex")] {
        let refused = ask("GET", path.clone(), &server.admin).await;
        assert_eq!(refused.told(), (404, "not_found".into()), "an admin of another workspace: {path}");
    }
    let refused = ask("POST", format!("{credentials}/{id}/revoke?workspace=globex"), &server.admin).await;
    assert_eq!(refused.told(), (404, "not_found".into()));
    let revoked = ask("POST", format!("{credentials}/{id}/revoke?workspace=globex"), &installer).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let key = made.json()["apiKey"].as_str().unwrap().to_owned();
    assert_eq!(ask("GET", RUNS.into(), &key).await.status, 401);
}

const RUNS: &str = super::RUNS;
