//! A cursor is good for the list it was given with, and for no other: every list, every filter, every workspace.

use std::collections::BTreeSet;

use hapax_server::identity::INSTALLATION;
use serde_json::{Value, json};

use super::RUNS;
use super::support::{Provider, Role, TestServer};

/// One list with more than one page at `limit=1`.
struct Pages {
    /// As the description has it.
    route: &'static str,
    path: String,
    /// The same route with other filters, or of something else.
    others: Vec<String>,
}

fn pages(route: &'static str, path: &str, others: &[&str]) -> Pages {
    Pages { route, path: path.into(), others: others.iter().map(|path| path.to_string()).collect() }
}

fn plain(route: &'static str) -> Pages {
    pages(route, route, &[])
}

fn with(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

async fn made(server: &TestServer, path: &str, body: Value) -> Value {
    let answer = server.post(path, &body, &[]).await;
    assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    answer.json()
}

/// Two of everything that is listed, in `acme`; answers two runs that have ended.
async fn fill(server: &TestServer, provider: &Provider) -> [String; 2] {
    for name in ["first", "second"] {
        let asked = json!({ "name": name, "url": provider.url("/told"), "events": ["run.completed"] });
        made(server, "/api/v1/webhook-subscriptions", asked).await;
        let source = json!({
            "name": name, "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
            "actions": [{ "settle": { "key": "{{ body.id }}", "value": 1 } }],
        });
        let source = made(server, "/api/v1/webhook-sources", source).await;
        for event in ["a", "b"] {
            made(server, source["path"].as_str().unwrap(), json!({ "id": format!("{name}-{event}") })).await;
        }
        let tickets = json!({
            "name": format!("{name}-flow"), "module": "default", "entity": format!("{name}-kind"),
            "status_types": ["open", "closed"],
            "steps": [
                { "step_id": 1, "step_key": "close", "status": "open", "successful_state": "closed" },
                { "step_id": 2, "step_key": "reopen", "status": "closed", "successful_state": "open" },
            ],
        });
        made(server, "/api/v1/entity-workflows", tickets).await;
        made(server, "/api/v1/promises", json!({ "id": name })).await;
        let function =
            json!({ "name": name, "url": provider.url("/told"), "tasks": [format!("pushed-{name}")] });
        made(server, "/api/v1/push-workers", function).await;
        let workflows = json!([{ "name": format!("of-workers-{name}") }]);
        let session = json!({ "name": name, "concurrency": 1, "tasks": [name], "workflows": workflows });
        made(server, "/api/v1/worker-sessions", session).await;
    }
    for id in ["t-1", "t-2"] {
        made(server, "/api/v1/entities/first-kind", json!({ "id": id, "status": "open" })).await;
        let ticket = format!("/api/v1/entities/first-kind/{id}");
        for step in ["close", "reopen", "close", "reopen"] {
            made(server, &format!("{ticket}/steps/{step}"), json!({})).await;
        }
        for text in ["one", "two"] {
            made(server, &format!("{ticket}/notes"), json!({ "text": text })).await;
        }
    }
    let cut = json!({
        "name": "wire", "version": 1,
        "steps": [{
            "name": "send", "type": "http", "method": "POST", "url": provider.url("/cut"), "effect": "claimed", "nonIdempotent": true,
        }],
    });
    let (wire, echo) = (server.upload(&cut).await, server.echo().await);
    let held = json!({
        "name": "held", "version": 1,
        "steps": [{ "name": "send", "type": "http", "method": "POST", "url": provider.url("/held"), "timeout": "10m" }],
    });
    let held = server.upload(&held).await;
    for _ in 0..2 {
        let run = server.start(&held, json!({})).await;
        server.until(&run, "RUNNING").await;
    }
    let mut ended = Vec::new();
    for _ in 0..2 {
        server.start(&wire, json!({})).await;
        let run = server.start(&echo, json!({})).await;
        server.end(&run).await;
        for text in ["one", "two"] {
            made(server, &format!("{RUNS}/{run}/notes"), json!({ "text": text })).await;
        }
        ended.push(run);
    }
    ended.try_into().expect("two")
}

fn every_list(runs: &[String; 2], subscription: &str) -> Vec<Pages> {
    let deliveries = "/api/v1/webhook-deliveries";
    let (tickets, ticket) = ("/api/v1/entities/first-kind", "/api/v1/entities/first-kind/t-1");
    let list_of_run =
        |part: &str| (format!("{RUNS}/{}/{part}", runs[0]), format!("{RUNS}/{}/{part}", runs[1]));
    let (events, notes, steps) = (list_of_run("events"), list_of_run("notes"), list_of_run("steps"));
    vec![
        plain("/api/v1/audit"),
        plain("/api/v1/credentials"),
        plain("/api/v1/doubts"),
        plain("/api/v1/early-settlements"),
        plain("/api/v1/entity-workflows"),
        plain("/api/v1/leases"),
        plain("/api/v1/ledger"),
        plain("/api/v1/push-workers"),
        plain("/api/v1/webhook-sources"),
        plain("/api/v1/webhook-subscriptions"),
        plain("/api/v1/worker-sessions"),
        plain("/api/v1/worker-workflows"),
        plain("/api/v1/workflow-definitions"),
        plain("/api/v1/workspaces"),
        pages(
            "/api/v1/entities/{type}",
            &format!("{tickets}?status=open"),
            &[tickets, &format!("{tickets}?status=closed"), "/api/v1/entities/second-kind?status=open"],
        ),
        pages(
            "/api/v1/entities/{type}/{id}/notes",
            &format!("{ticket}/notes"),
            &[&format!("{tickets}/t-2/notes"), "/api/v1/entities/second-kind/t-1/notes"],
        ),
        pages(
            "/api/v1/entities/{type}/{id}/operations",
            &format!("{ticket}/operations"),
            &[&format!("{tickets}/t-2/operations"), "/api/v1/entities/second-kind/t-1/operations"],
        ),
        pages(
            "/api/v1/operations",
            "/api/v1/operations?status=DONE&type=first-kind&stepKey=close",
            &[
                "/api/v1/operations",
                "/api/v1/operations?status=FAILED&type=first-kind&stepKey=close",
                "/api/v1/operations?status=DONE&type=second-kind&stepKey=close",
                "/api/v1/operations?status=DONE&type=first-kind&stepKey=reopen",
                "/api/v1/operations?status=DONE&type=first-kind&stepKey=close&idempotencyKey=k",
            ],
        ),
        pages(
            "/api/v1/promises",
            "/api/v1/promises?standAlone=true&status=PENDING",
            &[
                "/api/v1/promises",
                "/api/v1/promises?status=PENDING",
                "/api/v1/promises?standAlone=true",
                "/api/v1/promises?standAlone=true&status=RESOLVED",
                &format!("/api/v1/promises?status=PENDING&runId={}", runs[0]),
            ],
        ),
        pages(
            deliveries,
            &format!("{deliveries}?subscription={subscription}&status=delivered"),
            &[
                deliveries,
                &format!("{deliveries}?status=delivered"),
                &format!("{deliveries}?subscription={subscription}"),
                &format!("{deliveries}?subscription={subscription}&status=dead"),
            ],
        ),
        pages(
            "/api/v1/webhook-events",
            "/api/v1/webhook-events?source=first&status=unmatched",
            &[
                "/api/v1/webhook-events",
                "/api/v1/webhook-events?source=second&status=unmatched",
                "/api/v1/webhook-events?source=first",
                "/api/v1/webhook-events?source=first&status=applied",
            ],
        ),
        pages(
            RUNS,
            &format!("{RUNS}?status=COMPLETED&workflow=echo"),
            &[
                RUNS,
                &format!("{RUNS}?status=COMPLETED"),
                &format!("{RUNS}?workflow=echo"),
                &format!("{RUNS}?status=FAILED&workflow=echo"),
                &format!("{RUNS}?status=COMPLETED&workflow=wire"),
            ],
        ),
        pages("/api/v1/workflow-runs/{id}/events", &events.0, &[&events.1]),
        pages("/api/v1/workflow-runs/{id}/steps", &steps.0, &[&steps.1, &format!("{}?order=desc", steps.0)]),
        pages("/api/v1/workflow-runs/{id}/notes", &notes.0, &[&notes.1, "/api/v1/audit"]),
    ]
}

/// RELIABILITY, HTTP: pagination with a foreign cursor, or the cursor of another filter.
#[tokio::test]
async fn a_cursor_is_refused_by_every_list_filter_and_workspace_but_its_own() {
    let (server, provider) = (TestServer::memory().await, Provider::start().await);
    let runs = fill(&server, &provider).await;
    server.until_shown("/api/v1/doubts", |shown| shown["items"].as_array().map(Vec::len) == Some(2)).await;
    let listed = server.get("/api/v1/webhook-subscriptions").await.json();
    let subscription = listed["items"][0]["id"].as_str().unwrap();
    let delivered = format!("/api/v1/webhook-deliveries?status=delivered&subscription={subscription}");
    server.until_shown(&delivered, |shown| shown["items"].as_array().map(Vec::len) == Some(2)).await;
    let installation = server.key(INSTALLATION, Role::Admin).await;
    let stranger = server.key("globex", Role::Admin).await;
    let ask = async |path: &str, key: &str| server.send("GET", path, None, key, &[]).await;
    let lists = every_list(&runs, subscription);

    let described = server.get("/openapi.json").await.json();
    let has_cursor = |get: &Value| {
        let mut parameters = get["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["$ref"] == "#/components/parameters/Cursor")
    };
    let paths = described["paths"].as_object().unwrap();
    let paged: BTreeSet<&str> = paths
        .iter()
        .filter(|(_, methods)| has_cursor(&methods["get"]))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(paged, lists.iter().map(|list| list.route).collect(), "every list is here, and no other");

    for list in &lists {
        let key = if list.route == "/api/v1/workspaces" { &installation } else { &server.admin };
        let first = ask(&with(&list.path, "limit=1"), key).await;
        let cursor = first.json()["nextCursor"].as_str().map(|cursor| format!("limit=1&cursor={cursor}"));
        let cursor = cursor.unwrap_or_else(|| panic!("{} has one page: {}", list.path, first.text()));
        let next = ask(&with(&list.path, &cursor), key).await;
        assert_eq!(next.status, 200, "{}: {}", list.path, next.text());
        assert_ne!(next.json()["items"], first.json()["items"], "{} goes on", list.path);
        let of_others = lists.iter().filter(|other| other.route != list.route).map(|other| &other.path);
        for other in list.others.iter().chain(of_others) {
            let key = if other == "/api/v1/workspaces" { &installation } else { &server.admin };
            let refused = ask(&with(other, &cursor), key).await;
            assert_eq!(refused.told(), (400, "invalid_cursor".into()), "{} in {other}", list.path);
        }
        if list.route != "/api/v1/workspaces" {
            let refused = ask(&with(&list.path, &cursor), &stranger).await;
            assert_eq!(refused.told(), (400, "invalid_cursor".into()), "{} elsewhere", list.path);
        }
    }
}
