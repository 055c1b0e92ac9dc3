//! Every route, called with every role of its workspace, from another workspace, and without a key.

use std::collections::BTreeSet;

use hapax_server::access::Access;
use hapax_server::identity::INSTALLATION;
use hapax_server::list_routes;
use serde_json::{Value, json};

use super::RUNS;
use super::support::{Answer, Role, TestServer};

/// One route of this test; resources of the workspace stand in braces.
struct Case {
    method: &'static str,
    route: &'static str,
    path: &'static str,
    body: Option<Value>,
    access: Access,
    /// Statuses of an allowed call whose resources exist.
    answers: &'static [u16],
    /// Does the path name a resource of the workspace?
    names_a_thing: bool,
}

fn get(route: &'static str, access: Access) -> Case {
    let names_a_thing = route.contains('{');
    Case { method: "GET", route, path: route, body: None, access, answers: &[200], names_a_thing }
}

fn post(route: &'static str, access: Access, body: Value, answers: &'static [u16]) -> Case {
    let names_a_thing = route.contains('{');
    Case { method: "POST", route, path: route, body: Some(body), access, answers, names_a_thing }
}

fn patch(route: &'static str, access: Access, body: Value, answers: &'static [u16]) -> Case {
    Case { method: "PATCH", ..post(route, access, body, answers) }
}

fn put(route: &'static str, access: Access, body: Value, answers: &'static [u16]) -> Case {
    // It creates a missing resource.
    Case { method: "PUT", names_a_thing: false, ..post(route, access, body, answers) }
}

fn delete(route: &'static str, access: Access) -> Case {
    Case { method: "DELETE", ..get(route, access) }
}

impl Case {
    fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    fn answering(mut self, answers: &'static [u16]) -> Self {
        self.answers = answers;
        self
    }
}

/// The table. The first allowed caller does an action that works once; later calls get a 409.
fn cases() -> Vec<Case> {
    use Access::{Administer, Install, Manage, Open, Operate, Read, Reveal, Watch, Work};
    let document =
        json!({ "name": "new", "version": 1, "steps": [{ "name": "a", "type": "task", "task": "echo" }] });
    vec![
        post("/api/v1/workflow-definitions", Administer, document, &[200, 201]),
        get("/api/v1/workflow-definitions", Read),
        get("/api/v1/workflow-definitions/{id}", Read).at("/api/v1/workflow-definitions/{definition}"),
        patch("/api/v1/workflow-definitions/{id}", Administer, json!({ "status": "active" }), &[200])
            .at("/api/v1/workflow-definitions/{definition}"),
        Case {
            answers: &[409],
            ..delete("/api/v1/workflow-definitions/{id}", Administer)
                .at("/api/v1/workflow-definitions/{definition}")
        },
        post("/api/v1/workflow-runs", Operate, json!({ "definitionId": "{definition}" }), &[201]),
        post(
            "/api/v1/workflow-runs/batch",
            Operate,
            json!({ "runs": [{ "definitionId": "{definition}" }] }),
            &[200],
        ),
        get("/api/v1/workflow-runs", Read),
        get("/api/v1/workflow-runs/{id}", Read).at("/api/v1/workflow-runs/{run}"),
        post("/api/v1/workflow-runs/{id}/pause", Operate, json!({}), &[200, 409])
            .at("/api/v1/workflow-runs/{run}/pause"),
        post("/api/v1/workflow-runs/{id}/resume", Operate, json!({}), &[200, 409])
            .at("/api/v1/workflow-runs/{run}/resume"),
        post("/api/v1/workflow-runs/{id}/retry", Operate, json!({}), &[409])
            .at("/api/v1/workflow-runs/{run}/retry"),
        post("/api/v1/workflow-runs/{id}/signals", Operate, json!({ "name": "unread" }), &[200])
            .at("/api/v1/workflow-runs/{run}/signals"),
        post(
            "/api/v1/workflow-runs/{id}/approvals/{step}",
            Operate,
            json!({ "decision": "reject" }),
            &[200, 400],
        )
        .at("/api/v1/workflow-runs/{run}/approvals/sign-off"),
        get("/api/v1/workflow-runs/{id}/steps", Read).at("/api/v1/workflow-runs/{run}/steps"),
        post("/api/v1/workflow-runs/{id}/reveal", Reveal, json!({ "reason": "a complaint" }), &[200])
            .at("/api/v1/workflow-runs/{run}/reveal"),
        get("/api/v1/workflow-runs/{id}/result", Read)
            .at("/api/v1/workflow-runs/{run}/result")
            .answering(&[202, 409]),
        get("/api/v1/workflow-runs/{id}/events", Read).at("/api/v1/workflow-runs/{run}/events"),
        get("/api/v1/workflow-runs/{id}/events/stream", Read)
            .at("/api/v1/workflow-runs/{ended}/events/stream"),
        get("/api/v1/workflow-runs/{id}/ledger", Read).at("/api/v1/workflow-runs/{run}/ledger"),
        get("/api/v1/workflow-runs/{id}/retry-plan", Read)
            .at("/api/v1/workflow-runs/{run}/retry-plan")
            .answering(&[409]),
        get("/api/v1/workflow-runs/{id}/notes", Read).at("/api/v1/workflow-runs/{run}/notes"),
        post("/api/v1/workflow-runs/{id}/notes", Operate, json!({ "text": "seen" }), &[201])
            .at("/api/v1/workflow-runs/{run}/notes"),
        post("/api/v1/workflow-runs/{id}/cancel", Operate, json!({}), &[200, 409])
            .at("/api/v1/workflow-runs/{run}/cancel"),
        get("/api/v1/keys/{scope}/{key}", Read).at("/api/v1/keys/run/{key}").answering(&[200, 404]),
        post("/api/v1/keys/{scope}/{key}/release", Manage, json!({ "reason": "why not" }), &[200, 404])
            .at("/api/v1/keys/run/{key}/release"),
        get("/api/v1/why", Read).at("/api/v1/why?q={run}"),
        get("/api/v1/doubts", Read),
        get("/api/v1/doubts/{run}/{step}", Read).at("/api/v1/doubts/{ended}/say").answering(&[404]),
        post(
            "/api/v1/doubts/{run}/{step}/resolve",
            Operate,
            json!({ "resolution": "happened", "output": 1, "reason": "asked", "version": 1 }),
            &[409],
        )
        .at("/api/v1/doubts/{ended}/say/resolve"),
        post(
            "/api/v1/doubts/{run}/{step}/propose",
            Operate,
            json!({ "resolution": "abandon", "reason": "asked", "version": 1 }),
            &[409],
        )
        .at("/api/v1/doubts/{ended}/say/propose"),
        post(
            "/api/v1/doubts/{run}/{step}/confirm",
            Operate,
            json!({ "proposalId": "p", "reason": "asked", "version": 1 }),
            &[409],
        )
        .at("/api/v1/doubts/{ended}/say/confirm"),
        get("/api/v1/ledger", Read),
        get("/api/v1/ledger/{key}", Read).at("/api/v1/ledger/{ended}:say"),
        get("/api/v1/audit", Read),
        get("/api/v1/audit/{id}", Read).at("/api/v1/audit/aud_1_1").answering(&[404]),
        post("/api/v1/workspaces", Install, json!({ "name": "initech" }), &[200, 201]),
        get("/api/v1/workspaces", Install),
        get("/api/v1/workspaces/{id}", Read).at("/api/v1/workspaces/{workspace}"),
        post("/api/v1/credentials", Administer, json!({ "name": "x", "role": "viewer" }), &[201]),
        get("/api/v1/credentials", Administer),
        get("/api/v1/credentials/{id}", Administer).at("/api/v1/credentials/{credential}"),
        post("/api/v1/credentials/{id}/rotate", Administer, json!({}), &[200])
            .at("/api/v1/credentials/{credential}/rotate"),
        post("/api/v1/credentials/{id}/revoke", Administer, json!({}), &[200])
            .at("/api/v1/credentials/{credential}/revoke"),
        get("/api/v1/node", Administer),
        get("/api/v1/leases", Read),
        get("/api/v1/idempotency-policy", Open),
        get("/", Open),
        get("/healthz", Open),
        get("/readyz", Open),
        get("/metrics", Watch),
        get("/openapi.json", Open),
        get("/schemas/workflow-definition.json", Open),
        get("/docs", Open),
        post(
            "/api/v1/webhook-subscriptions",
            Administer,
            json!({ "name": "new", "url": "https://example.com/hooks", "events": ["run.failed"] }),
            &[201],
        ),
        get("/api/v1/webhook-subscriptions", Read),
        get("/api/v1/webhook-subscriptions/{id}", Read).at("/api/v1/webhook-subscriptions/{subscription}"),
        post("/api/v1/webhook-subscriptions/{id}/rotate", Administer, json!({}), &[200])
            .at("/api/v1/webhook-subscriptions/{subscription}/rotate"),
        patch("/api/v1/webhook-subscriptions/{id}", Administer, json!({ "status": "enabled" }), &[200])
            .at("/api/v1/webhook-subscriptions/{subscription}"),
        post("/api/v1/webhook-subscriptions/{id}/test", Administer, json!({}), &[200])
            .at("/api/v1/webhook-subscriptions/{subscription}/test"),
        get("/api/v1/webhook-deliveries", Read),
        get("/api/v1/webhook-deliveries/{id}", Read).at("/api/v1/webhook-deliveries/{delivery}"),
        post(
            "/api/v1/webhook-deliveries/{id}/redeliver",
            Operate,
            json!({ "reason": "why not" }),
            &[200, 409],
        )
        .at("/api/v1/webhook-deliveries/{delivery}/redeliver"),
        post(
            "/api/v1/webhook-deliveries/redeliver",
            Operate,
            json!({ "subscriptionId": "{subscription}", "status": "dead", "limit": 1, "reason": "why not" }),
            &[200],
        ),
        post(
            "/api/v1/webhook-deliveries/discard",
            Operate,
            json!({ "subscriptionId": "{subscription}", "limit": 1, "reason": "why not" }),
            &[200],
        ),
        delete("/api/v1/webhook-subscriptions/{id}", Administer)
            .at("/api/v1/webhook-subscriptions/{subscription}"),
        post("/api/v1/promises", Operate, json!({}), &[201]),
        get("/api/v1/promises", Read),
        get("/api/v1/promises/{ref}", Read).at("/api/v1/promises/id:{promise}"),
        post("/api/v1/promises/{ref}/tokens", Operate, json!({}), &[201])
            .at("/api/v1/promises/id:{promise}/tokens"),
        post("/api/v1/promises/{ref}/resolve", Operate, json!({ "value": 1 }), &[200])
            .at("/api/v1/promises/id:{promise}/resolve"),
        post("/api/v1/promises/{ref}/reject", Operate, json!({ "message": "no" }), &[200])
            .at("/api/v1/promises/id:{promise}-2/reject"),
        get("/api/v1/early-settlements", Read),
        get("/api/v1/early-settlements/{key}", Read).at("/api/v1/early-settlements/{key}").answering(&[404]),
        get("/api/tenants/{slug}/promises/{ref}", Read).at("/api/tenants/{workspace}/promises/id:{promise}"),
        post("/api/tenants/{slug}/promises/{ref}/resolve", Operate, json!({ "value": 1 }), &[200])
            .at("/api/tenants/{workspace}/promises/id:{promise}/resolve"),
        post("/api/tenants/{slug}/promises/{ref}/reject", Operate, json!({ "message": "no" }), &[200])
            .at("/api/tenants/{workspace}/promises/id:{promise}-2/reject"),
        post("/settle/{token}", Open, json!({ "value": 3 }), &[200]).at("/settle/{token}"),
        get("/settle/{token}", Open),
        post(
            "/promises",
            Operate,
            json!({ "id": "made", "timeout": 9_007_199_254_740_991_i64 }),
            &[201, 409],
        ),
        get("/promises/{id}", Read).at("/promises/{promise}"),
        patch("/promises/{id}", Operate, json!({ "state": "RESOLVED" }), &[200, 403])
            .at("/promises/{promise}-4"),
        post("/api/v1/webhook-sources", Administer, source("new"), &[200, 201]),
        get("/api/v1/webhook-sources", Read),
        get("/api/v1/webhook-sources/{name}", Read).at("/api/v1/webhook-sources/{source}"),
        Case {
            names_a_thing: true,
            ..put("/api/v1/webhook-sources/{name}", Administer, source("{source}"), &[200])
                .at("/api/v1/webhook-sources/{source}")
        },
        delete("/api/v1/webhook-sources/{name}", Administer).at("/api/v1/webhook-sources/{source}-2"),
        patch("/api/v1/webhook-sources/{name}", Administer, json!({ "status": "enabled" }), &[200])
            .at("/api/v1/webhook-sources/{source}"),
        post("/api/v1/webhooks/{source}", Open, json!({ "id": "{event}" }), &[200]).at("{webhooks}"),
        post("/api/v1/webhooks/{workspace}/{name}", Open, json!({ "id": "{event}" }), &[200])
            .at("/api/v1/webhooks/{workspace}/{source}"),
        get("/api/v1/webhook-events", Read),
        post("/api/v1/webhook-events/reprocess", Operate, json!({ "status": "failed", "limit": 1 }), &[200]),
        get("/api/v1/webhook-events/{source}/{event}", Read).at("/api/v1/webhook-events/{source}/{event}"),
        post("/api/v1/webhook-events/{source}/{event}/reprocess", Operate, json!({}), &[200])
            .at("/api/v1/webhook-events/{source}/{event}/reprocess"),
        get("/schemas/webhook-source.json", Open),
        post("/api/v1/entity-workflows", Administer, entity_workflow("new"), &[200, 201]),
        get("/api/v1/entity-workflows", Read),
        get("/api/v1/entity-workflows/{name}", Read).at("/api/v1/entity-workflows/{entity}"),
        put("/api/v1/entity-workflows/{name}", Administer, entity_workflow("put"), &[200, 201])
            .at("/api/v1/entity-workflows/put"),
        Case {
            answers: &[200, 404],
            ..delete("/api/v1/entity-workflows/{name}", Administer).at("/api/v1/entity-workflows/put")
        },
        get("/api/v1/entity-workflows/{name}/diagram", Read).at("/api/v1/entity-workflows/{entity}/diagram"),
        post("/api/v1/entities/{type}", Operate, json!({ "id": "e", "status": "open" }), &[200, 201])
            .at("/api/v1/entities/{entity}"),
        get("/api/v1/entities/{type}", Read).at("/api/v1/entities/{entity}"),
        get("/api/v1/entities/{type}/{id}", Read).at("/api/v1/entities/{entity}/{thing}"),
        post("/api/v1/entities/{type}/{id}/action-tokens", Operate, json!({}), &[201])
            .at("/api/v1/entities/{entity}/{thing}/action-tokens"),
        get("/api/v1/entities/{type}/{id}/notes", Read).at("/api/v1/entities/{entity}/{thing}/notes"),
        post("/api/v1/entities/{type}/{id}/notes", Operate, json!({ "text": "seen" }), &[201])
            .at("/api/v1/entities/{entity}/{thing}/notes"),
        get("/api/v1/entities/{type}/{id}/operations", Read)
            .at("/api/v1/entities/{entity}/{thing}/operations"),
        post("/api/v1/entities/{type}/{id}/steps/{stepKey}", Operate, json!({}), &[409])
            .at("/api/v1/entities/{entity}/{thing}/steps/close"),
        post(
            "/api/v1/entities/{type}/{id}/steps/{stepKey}/override",
            Manage,
            json!({ "reason": "it did not happen" }),
            &[409],
        )
        .at("/api/v1/entities/{entity}/{thing}/steps/close/override"),
        get("/api/v1/operations", Read),
        get("/api/v1/operations/{id}", Read).at("/api/v1/operations/{operation}"),
        post(
            "/api/v1/operations/{id}/resolve",
            Operate,
            json!({ "resolution": "happened", "attempt": 1, "reason": "seen" }),
            &[409],
        )
        .at("/api/v1/operations/{operation}/resolve"),
        get("/schemas/entity-workflow.json", Open),
        post("/api/v1/worker-sessions", Work, json!({ "name": "another", "concurrency": 1 }), &[201]),
        get("/api/v1/worker-sessions", Read),
        get("/api/v1/worker-workflows", Read),
        post(
            "/api/v1/worker-sessions/announce",
            Work,
            json!({ "sessionId": "wks_1", "instance": "nobody", "openedAt": "2026-01-01T00:00:00Z" }),
            &[200],
        ),
        post("/api/v1/worker-sessions/{id}/commit", Work, json!({ "sequence": 1, "free": 1 }), &[200])
            .at("/api/v1/worker-sessions/{session}/commit"),
        post("/api/v1/worker-sessions/{id}/poll", Work, json!({ "sequence": 1, "free": 1 }), &[200])
            .at("/api/v1/worker-sessions/{session}/poll"),
        get("/api/v1/worker-sessions/{id}/runs/{run}/log", Work)
            .at("/api/v1/worker-sessions/{session}/runs/{run}/log?activation=a1")
            .answering(&[404]),
        // The first who may ends it.
        delete("/api/v1/worker-sessions/{id}", Work)
            .at("/api/v1/worker-sessions/{session}")
            .answering(&[200, 404]),
        post(
            "/api/v1/push-workers",
            Administer,
            json!({ "name": "function", "url": "https://example.com/", "tasks": ["pushed"] }),
            &[201, 409],
        ),
        get("/api/v1/push-workers", Read),
        get("/api/v1/push-workers/{id}", Read).at("/api/v1/push-workers/psh_unknown").answering(&[404]),
        delete("/api/v1/push-workers/{id}", Administer)
            .at("/api/v1/push-workers/psh_unknown")
            .answering(&[404]),
    ]
}

/// Entities of a type of the same name, which are open and then closed.
fn entity_workflow(name: &str) -> Value {
    json!({
        "name": name, "module": "default", "entity": name, "status_types": ["open", "closed"],
        "steps": [{ "step_id": 1, "step_key": "close", "status": "open", "successful_state": "closed" }],
    })
}

/// A source without signatures.
fn source(name: &str) -> Value {
    json!({
        "name": name, "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "settle": { "key": "k", "value": 1 } }],
    })
}

/// Resources of a workspace.
struct WorkspaceResources {
    workspace: String,
    definition: String,
    run: String,
    ended: String,
    key: String,
    credential: String,
    subscription: String,
    delivery: String,
    promise: String,
    token: String,
    source: String,
    webhooks: String,
    event: String,
    entity: String,
    thing: String,
    operation: String,
    session: String,
}

impl WorkspaceResources {
    /// Well-formed ids that name nothing.
    fn without_owner() -> Self {
        let run = format!("run_{:032x}", 0x0199_0000_0000_7000_8000_0000_0000_0000u128);
        WorkspaceResources {
            workspace: "umbrella".into(),
            definition: format!("def_{}", "0".repeat(32)),
            ended: run.clone(),
            delivery: format!("{run}:~run.completed~0~webhook.sub_0"),
            run,
            key: "nobodys".into(),
            credential: "cred_000000000000".into(),
            subscription: format!("sub_{}", "0".repeat(32)),
            promise: "nobodys-promise".into(),
            token: "hps_0".into(),
            source: "nobodys-source".into(),
            webhooks: format!("/api/v1/webhooks/whk_{}", "0".repeat(32)),
            event: "nobodys-event".into(),
            entity: "nobodys-entity".into(),
            thing: "nobodys-thing".into(),
            operation: format!("op_{:032x}", 0x0199_0000_0000_7000_8000_0000_0000_0000u128),
            session: format!("wks_{}", "0".repeat(32)),
        }
    }

    async fn of(server: &TestServer, workspace: &str) -> Self {
        let admin = server.key(workspace, Role::Admin).await;
        let send = async |path: &str, body: Value| {
            let answer = server.send("POST", path, Some(body.to_string()), &admin, &[]).await;
            assert!(matches!(answer.status, 200 | 201), "{path} {}", answer.text());
            answer.json()
        };
        let document = json!({
            "name": "asks", "version": 1,
            "steps": [{ "name": "sign-off", "type": "approval", "decisions": ["approve"] }],
        });
        let document = send("/api/v1/workflow-definitions", document).await;
        let definition = document["id"].as_str().unwrap().to_owned();
        let key = format!("key-of-{workspace}");
        let run =
            send(RUNS, json!({ "definitionId": definition })).await["run"]["id"].as_str().unwrap().to_owned();
        let says = json!({ "name": "says", "version": 1, "steps": [{ "name": "say", "type": "task", "task": "echo" }] });
        let says = send("/api/v1/workflow-definitions", says).await["id"].as_str().unwrap().to_owned();
        // No server listens there.
        let told = json!({ "name": "told", "url": "http://127.0.0.1:9/", "events": ["run.completed"] });
        let subscription = send("/api/v1/webhook-subscriptions", told).await["subscription"]["id"].clone();
        let ended = send(RUNS, json!({ "definitionId": says, "idempotencyKey": key })).await;
        let ended = ended["run"]["id"].as_str().unwrap().to_owned();
        let wait = [("prefer", "wait=20")];
        server.send("GET", &format!("{RUNS}/{ended}/result"), None, &admin, &wait).await;
        let credential = send("/api/v1/credentials", json!({ "name": "spare", "role": "viewer" })).await;
        let credential = credential["credential"]["id"].as_str().unwrap().to_owned();
        let subscription = subscription.as_str().unwrap().to_owned();
        let deliveries = server.send("GET", "/api/v1/webhook-deliveries", None, &admin, &[]).await.json();
        let delivery = deliveries["items"][0]["id"].as_str().unwrap().to_owned();
        let promise = format!("promise-of-{workspace}");
        for id in [promise.clone(), format!("{promise}-2"), format!("{promise}-3"), format!("{promise}-4")] {
            send("/api/v1/promises", json!({ "id": id })).await;
        }
        let token = send(&format!("/api/v1/promises/id:{promise}-3/tokens"), json!({})).await;
        let token = token["token"].as_str().unwrap().to_owned();
        let (name, event) = (format!("source-of-{workspace}"), format!("event-of-{workspace}"));
        let webhooks =
            send("/api/v1/webhook-sources", source(&name)).await["path"].as_str().unwrap().to_owned();
        send("/api/v1/webhook-sources", source(&format!("{name}-2"))).await;
        send(&webhooks, json!({ "id": event })).await;
        let (entity, thing) = (format!("entity-of-{workspace}"), format!("thing-of-{workspace}"));
        send("/api/v1/entity-workflows", entity_workflow(&entity)).await;
        send(&format!("/api/v1/entities/{entity}"), json!({ "id": thing, "status": "open" })).await;
        let closed = send(&format!("/api/v1/entities/{entity}/{thing}/steps/close"), json!({})).await;
        let operation = closed["operation"]["id"].as_str().unwrap().to_owned();
        let worker = send("/api/v1/worker-sessions", json!({ "name": "worker", "concurrency": 1 })).await;
        let session = worker["sessionId"].as_str().unwrap().to_owned();
        WorkspaceResources {
            workspace: workspace.into(),
            definition,
            run,
            ended,
            key,
            credential,
            subscription,
            delivery,
            promise,
            token,
            source: name,
            webhooks,
            event,
            entity,
            thing,
            operation,
            session,
        }
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{definition}", &self.definition)
            .replace("{run}", &self.run)
            .replace("{ended}", &self.ended)
            .replace("{key}", &self.key)
            .replace("{workspace}", &self.workspace)
            .replace("{credential}", &self.credential)
            .replace("{subscription}", &self.subscription)
            .replace("{delivery}", &self.delivery)
            .replace("{promise}", &self.promise)
            .replace("{token}", &self.token)
            .replace("{source}", &self.source)
            .replace("{webhooks}", &self.webhooks)
            .replace("{event}", &self.event)
            .replace("{entity}", &self.entity)
            .replace("{thing}", &self.thing)
            .replace("{operation}", &self.operation)
            .replace("{session}", &self.session)
    }
}

async fn call(
    server: &TestServer,
    client: &reqwest::Client,
    case: &Case,
    things: &WorkspaceResources,
    key: &str,
) -> Answer {
    let body = case.body.as_ref().map(|body| things.fill(&body.to_string()));
    server.send_by(client, case.method, &things.fill(case.path), body, key, &[]).await
}

/// Content of a response, without the parts that differ per request, and without the requested
/// names.
fn without_names(answer: &Answer, things: &WorkspaceResources) -> String {
    let mut text = answer.text();
    if let Some(id) = answer.json()["traceId"].as_str() {
        text = text.replace(id, "");
    }
    for name in [
        &things.operation,
        &things.session,
        &things.entity,
        &things.thing,
        &things.delivery,
        &things.promise,
        &things.definition,
        &things.run,
        &things.ended,
        &things.key,
        &things.workspace,
        &things.credential,
        &things.subscription,
        &things.source,
        &things.event,
    ] {
        text = text.replace(name.as_str(), "");
    }
    text
}

/// RELIABILITY 54, 56; "a route not in the table fails".
#[test]
fn every_route_is_in_the_table() {
    let listed: BTreeSet<String> = list_routes()
        .into_iter()
        .map(|(method, path, access)| format!("{method} {path} {access:?}"))
        .collect();
    let tested: BTreeSet<String> =
        cases().iter().map(|case| format!("{} {} {:?}", case.method, case.route, case.access)).collect();
    assert_eq!(listed, tested);
}

/// Expected permissions, stated a second time so that an error in the server's own table is found.
fn may(role: Role, access: Access) -> bool {
    let allowed: &[Access] = match role {
        Role::Worker => &[Access::Open, Access::Work],
        Role::Viewer => &[Access::Open, Access::Read],
        Role::Operator => &[Access::Open, Access::Read, Access::Operate],
        Role::Manager => &[Access::Open, Access::Read, Access::Operate, Access::Manage, Access::Reveal],
        Role::Admin => &[
            Access::Open,
            Access::Read,
            Access::Operate,
            Access::Manage,
            Access::Reveal,
            Access::Administer,
            Access::Work,
        ],
    };
    allowed.contains(&access)
}

/// RELIABILITY 56: each role may do its work, and no more; without a key only open routes work.
#[tokio::test]
async fn each_route_lets_in_who_may_and_nobody_else() {
    let server = TestServer::memory().await;
    let things = WorkspaceResources::of(&server, "acme").await;
    let installation = server.key(INSTALLATION, Role::Admin).await;
    for (number, case) in cases().iter().enumerate() {
        // Failed authentications are counted by address, so each route is called from its own.
        let client = server.client_at(u8::try_from(number + 1).unwrap());
        let place = format!("{} {}", case.method, case.route);
        let nobody = call(&server, &client, case, &things, "").await;
        match case.access {
            Access::Open => assert_eq!(nobody.status, 200, "{place}"),
            _ => assert_eq!(nobody.told(), (401, "unauthorized".into()), "{place}"),
        }
        for role in Role::ALL {
            let key = server.key("acme", role).await;
            let answer = call(&server, &client, case, &things, &key).await;
            match may(role, case.access) {
                true => assert!(
                    case.answers.contains(&answer.status),
                    "{place} as {role:?}: {} {}",
                    answer.status,
                    answer.text()
                ),
                false => {
                    assert_eq!(answer.told(), (403, "forbidden".into()), "{place} as {role:?}");
                    assert_eq!(answer.json()["requiredRole"], case.access.least_role(), "{place}");
                }
            }
        }
        if !Role::ALL.iter().any(|role| may(*role, case.access)) {
            // Routes that no role of a workspace may call are for the installation.
            let answer = call(&server, &client, case, &things, &installation).await;
            assert!(case.answers.contains(&answer.status), "{place}: {}", answer.text());
        }
    }
}

/// RELIABILITY 54: resources of another workspace get the same response as missing ones.
#[tokio::test]
async fn another_workspace_sees_nothing_not_even_that_there_is_something() {
    let server = TestServer::memory().await;
    let things = WorkspaceResources::of(&server, "acme").await;
    let nothing = WorkspaceResources::without_owner();
    let stranger = server.key("globex", Role::Admin).await;
    // Open routes have tests of their own: a token works for every caller, and a webhook for every
    // signer.
    for case in cases().iter().filter(|case| case.names_a_thing && case.access != Access::Open) {
        let place = format!("{} {}", case.method, case.route);
        let theirs = call(&server, &server.http, case, &things, &stranger).await;
        let nobodys = call(&server, &server.http, case, &nothing, &stranger).await;
        assert_eq!((theirs.status, nobodys.status), (404, 404), "{place}: {}", theirs.text());
        assert_eq!(without_names(&theirs, &things), without_names(&nobodys, &nothing), "{place}");
    }
    for list in [
        RUNS,
        "/api/v1/doubts",
        "/api/v1/ledger",
        "/api/v1/workflow-definitions",
        "/api/v1/webhook-subscriptions",
        "/api/v1/webhook-deliveries",
        "/api/v1/promises",
        "/api/v1/early-settlements",
        "/api/v1/webhook-sources",
        "/api/v1/webhook-events",
        "/api/v1/entity-workflows",
        "/api/v1/operations",
    ] {
        let shown = server.send("GET", list, None, &stranger, &[]).await;
        assert_eq!(shown.json()["items"], json!([]), "{list}");
    }
    let starts = json!({ "definitionId": things.definition }).to_string();
    let refused = server.send("POST", RUNS, Some(starts), &stranger, &[]).await;
    assert_eq!(refused.told(), (404, "definition_not_found".into()));
    for list in ["/api/v1/audit", "/api/v1/credentials", "/metrics"] {
        let shown = server.send("GET", list, None, &stranger, &[]).await;
        assert!(!shown.text().contains("acme"), "{list}: {}", shown.text());
    }
    // Nothing was changed.
    let run = server.get(&format!("{RUNS}/{}", things.run)).await.json();
    assert_eq!(run["run"]["status"], "WAITING", "{run}");
}

/// RELIABILITY 54: an admin of the installation sets up workspaces, and sees nothing in them.
#[tokio::test]
async fn the_installation_sets_workspaces_up_and_sees_nothing_in_them() {
    let server = TestServer::memory().await;
    let things = WorkspaceResources::of(&server, "acme").await;
    let installation = server.key(INSTALLATION, Role::Admin).await;
    let shown = server.send("GET", &format!("{RUNS}/{}", things.run), None, &installation, &[]).await;
    assert_eq!(shown.status, 404);
    let asked = json!({ "name": "initech", "description": "paper" }).to_string();
    let send =
        async |path: &str, body: String| server.send("POST", path, Some(body), &installation, &[]).await;
    assert_eq!(send("/api/v1/workspaces", asked.clone()).await.status, 201);
    assert_eq!(send("/api/v1/workspaces", asked).await.status, 200, "the same again is found");
    let other =
        send("/api/v1/workspaces", json!({ "name": "initech", "description": "x" }).to_string()).await;
    assert_eq!(other.told(), (409, "name_taken".into()));
    for bad in ["", "two words", "caf\u{e9}", INSTALLATION, &"w".repeat(200)] {
        let refused = send("/api/v1/workspaces", json!({ "name": bad }).to_string()).await;
        assert!((400..500).contains(&refused.status), "{bad:?}: {}", refused.text());
    }
    let admin = json!({ "name": "first", "role": "admin" }).to_string();
    let issued = send("/api/v1/credentials?workspace=initech", admin.clone()).await;
    assert_eq!(issued.status, 201, "{}", issued.text());
    let key = issued.json()["apiKey"].as_str().unwrap().to_owned();
    let own = server.send("GET", "/api/v1/workspaces/initech", None, &key, &[]).await;
    assert_eq!((own.status, &own.json()["description"]), (200, &json!("paper")));
    assert_eq!(send("/api/v1/credentials?workspace=nowhere", admin.clone()).await.status, 404);
    let sneaky = server.send("POST", "/api/v1/credentials?workspace=acme", Some(admin), &key, &[]).await;
    assert_eq!(sneaky.status, 404, "only the installation may name another workspace");
    let all = server.send("GET", "/api/v1/workspaces?limit=200", None, &installation, &[]).await.json();
    let names: Vec<&str> =
        all["items"].as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect();
    assert!(names.contains(&"acme") && names.contains(&"initech"), "{names:?}");
}
