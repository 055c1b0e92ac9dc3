//! Every route that a person changes state by leaves one entry in the audit log, which names the
//! person. A new route must declare its entry.

use std::collections::BTreeSet;

use hapax_engine::Failure;
use hapax_engine::runtime::StepCall;
use hapax_server::access::Access;
use hapax_server::identity::INSTALLATION;
use hapax_server::list_routes;
use serde_json::{Value, json};

use super::RUNS;
use super::support::{Provider, Role, TestServer};

/// Audit entry of a route.
enum ExpectedAudit {
    /// One entry of this kind.
    One(&'static str),
    /// None, and why.
    Nothing(&'static str),
    /// Covered by a test of its own, because it acts on many resources at once: its file and its
    /// name.
    Elsewhere(&'static str, &'static str),
}

const DOUBTS: &str = include_str!("../runs/doubts.rs");
const DELIVERIES: &str = include_str!("../outbound_webhooks/deliveries.rs");
const PROCESSING: &str = include_str!("../inbound_webhooks/processing.rs");

/// Every route that is not for reading and needs a credential.
fn table() -> Vec<(&'static str, ExpectedAudit)> {
    use ExpectedAudit::{Elsewhere, Nothing, One};
    vec![
        ("POST /api/v1/workflow-definitions", One("definition_uploaded")),
        ("PATCH /api/v1/workflow-definitions/{id}", One("definition_uploaded")),
        ("DELETE /api/v1/workflow-definitions/{id}", One("definition_uploaded")),
        ("POST /api/v1/workflow-runs", Nothing("starts work: the run is the record")),
        ("POST /api/v1/workflow-runs/batch", Nothing("starts work: the runs are the record")),
        ("POST /api/v1/workflow-runs/{id}/cancel", One("steered")),
        ("POST /api/v1/workflow-runs/{id}/pause", One("steered")),
        ("POST /api/v1/workflow-runs/{id}/resume", One("steered")),
        ("POST /api/v1/workflow-runs/{id}/retry", One("steered")),
        (
            "POST /api/v1/workflow-runs/{id}/signals",
            Nothing("a message between programs: the run is the record"),
        ),
        ("POST /api/v1/workflow-runs/{id}/approvals/{step}", One("approval_answered")),
        ("POST /api/v1/workflow-runs/{id}/notes", One("noted")),
        ("POST /api/v1/workflow-runs/{id}/reveal", One("payloads_revealed")),
        ("POST /api/v1/keys/{scope}/{key}/release", One("key_released")),
        ("POST /api/v1/doubts/{run}/{step}/resolve", One("resolved")),
        ("POST /api/v1/doubts/{run}/{step}/propose", One("ruling_proposed")),
        (
            "POST /api/v1/doubts/{run}/{step}/confirm",
            Elsewhere(DOUBTS, "an_operator_proposes_and_a_manager_confirms"),
        ),
        ("POST /api/v1/workspaces", One("workspace_changed")),
        ("POST /api/v1/credentials", One("credential_changed")),
        ("POST /api/v1/credentials/{id}/rotate", One("credential_changed")),
        ("POST /api/v1/credentials/{id}/revoke", One("credential_changed")),
        ("POST /api/v1/webhook-subscriptions", One("subscription_changed")),
        ("POST /api/v1/webhook-subscriptions/{id}/rotate", One("subscription_changed")),
        ("PATCH /api/v1/webhook-subscriptions/{id}", One("subscription_changed")),
        ("DELETE /api/v1/webhook-subscriptions/{id}", One("subscription_changed")),
        ("POST /api/v1/webhook-subscriptions/{id}/test", Nothing("changes nothing")),
        ("POST /api/v1/webhook-deliveries/{id}/redeliver", Elsewhere(DELIVERIES, "by_ada")),
        ("POST /api/v1/webhook-deliveries/redeliver", Elsewhere(DELIVERIES, "by_ada")),
        (
            "POST /api/v1/webhook-deliveries/discard",
            Elsewhere(DELIVERIES, "the_dead_of_a_deleted_subscription_are_discarded_and_that_is_audited"),
        ),
        ("POST /api/v1/promises", Nothing("makes work: the promise is the record")),
        ("POST /api/v1/promises/{ref}/resolve", One("promise_settled")),
        ("POST /api/v1/promises/{ref}/reject", One("promise_settled")),
        ("POST /api/v1/promises/{ref}/tokens", One("settle_token_issued")),
        ("POST /api/tenants/{slug}/promises/{ref}/resolve", One("promise_settled")),
        ("POST /api/tenants/{slug}/promises/{ref}/reject", One("promise_settled")),
        ("POST /promises", Nothing("makes work: the promise is the record")),
        ("POST /api/v1/worker-sessions", Nothing("a program connects: the list of sessions shows it")),
        ("POST /api/v1/worker-sessions/announce", Nothing("nodes tell each other of a session")),
        ("POST /api/v1/worker-sessions/{id}/poll", Nothing("a program works: the runs are the record")),
        ("POST /api/v1/worker-sessions/{id}/commit", Nothing("a program works: the runs are the record")),
        ("DELETE /api/v1/worker-sessions/{id}", Nothing("a program leaves: the runs are the record")),
        ("POST /api/v1/push-workers", One("push_worker_changed")),
        ("DELETE /api/v1/push-workers/{id}", One("push_worker_changed")),
        ("PATCH /promises/{id}", One("promise_settled")),
        ("POST /api/v1/webhook-sources", One("source_changed")),
        ("PUT /api/v1/webhook-sources/{name}", One("source_changed")),
        ("PATCH /api/v1/webhook-sources/{name}", One("source_changed")),
        ("DELETE /api/v1/webhook-sources/{name}", One("source_changed")),
        ("POST /api/v1/webhook-events/reprocess", Elsewhere(PROCESSING, "reprocessed")),
        ("POST /api/v1/webhook-events/{source}/{event}/reprocess", One("webhook_reprocessed")),
        ("POST /api/v1/entity-workflows", One("entity_workflow_changed")),
        ("PUT /api/v1/entity-workflows/{name}", One("entity_workflow_changed")),
        ("DELETE /api/v1/entity-workflows/{name}", One("entity_workflow_changed")),
        ("POST /api/v1/entities/{type}", Nothing("makes a business object, which is the record")),
        ("POST /api/v1/entities/{type}/{id}/steps/{stepKey}", One("step_taken")),
        ("POST /api/v1/entities/{type}/{id}/steps/{stepKey}/override", One("overridden")),
        (
            "POST /api/v1/entities/{type}/{id}/action-tokens",
            Nothing("a token of minutes: what is done with it names its person and credential"),
        ),
        ("POST /api/v1/entities/{type}/{id}/notes", One("noted")),
        ("POST /api/v1/operations/{id}/resolve", One("resolved")),
    ]
}

fn source(name: &str, value: u32) -> Value {
    json!({
        "name": name, "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "settle": { "key": "of-source", "value": value } }],
    })
}

fn function(name: &str) -> Value {
    json!({ "name": name, "url": "http://127.0.0.1:9/", "tasks": ["pushed"] })
}

fn things(name: &str, label: &str) -> Value {
    json!({
        "name": name, "module": "default", "entity": name, "status_types": ["open", "closing", label],
        "steps": [
            { "step_id": 1, "step_key": "close", "status": "open", "successful_state": label },
            {
                "step_id": 2, "step_key": "send", "status": "open", "successful_state": label, "claim_state": ["closing", "open"],
                "action": "SaysNothing", "effect": "non_idempotent",
            },
        ],
    })
}

/// A workspace with resources to act on, and a person with the role admin, who may do everything.
struct AuditedWorkspace {
    server: TestServer,
    provider: Provider,
    /// A credential of the same name, which did all the setup.
    other: String,
    prober: String,
    prober_id: String,
}

impl AuditedWorkspace {
    async fn new() -> Self {
        let server = TestServer::sqlite().await;
        let silent = |_: StepCall| async { Err::<_, Failure>(Failure::unknown("the bank hung up")) };
        server.engine.register_action("SaysNothing", silent).unwrap();
        let provider = Provider::start().await;
        let (prober, prober_id) = issue(&server).await;
        let (other, _) = issue(&server).await;
        AuditedWorkspace { server, provider, other, prober, prober_id }
    }

    async fn definition(&self, name: &str) -> String {
        let step = json!({ "name": "a", "type": "task", "task": "echo" });
        let document = json!({ "name": name, "version": 1, "steps": [step] });
        let made = self.set_up("/api/v1/workflow-definitions", document).await;
        made["id"].as_str().unwrap().to_owned()
    }

    async fn set_up(&self, path: &str, body: Value) -> Value {
        let answer = self.server.send("POST", path, Some(body.to_string()), &self.other, &[]).await;
        assert!(matches!(answer.status, 200..=202), "{path} {}", answer.text());
        answer.json()
    }

    async fn run(&self, name: &str, step: Value) -> String {
        let document = json!({ "name": name, "version": 1, "steps": [step] });
        let definition = self.set_up("/api/v1/workflow-definitions", document).await["id"].clone();
        let key = format!("key of {name}");
        let made = self.set_up(RUNS, json!({ "definitionId": definition, "idempotencyKey": key })).await;
        made["run"]["id"].as_str().unwrap().to_owned()
    }

    async fn waiting(&self, name: &str) -> String {
        let run =
            self.run(name, json!({ "name": "sign-off", "type": "approval", "decisions": ["approve"] })).await;
        self.server.until(&run, "WAITING").await;
        run
    }

    /// A run in doubt, and the version to rule on.
    async fn doubted(&self, name: &str) -> (String, Value) {
        let step = json!({
            "name": "send", "type": "http", "method": "POST", "url": self.provider.url("/cut"), "effect": "claimed",
            "nonIdempotent": true,
        });
        let run = self.run(name, step).await;
        let find = |page: &Value| page["items"].as_array()?.iter().find(|it| it["runId"] == *run).cloned();
        let page = self.server.until_shown("/api/v1/doubts", |page| find(page).is_some()).await;
        let version = find(&page).unwrap()["version"].clone();
        (run, version)
    }

    async fn ended(&self, name: &str) -> String {
        let run = self.run(name, json!({ "name": "say", "type": "task", "task": "echo" })).await;
        self.server.until(&run, "COMPLETED").await;
        run
    }

    async fn subscription(&self, name: &str) -> String {
        let told = json!({ "name": name, "url": "http://127.0.0.1:9/", "events": ["run.failed"] });
        let made = self.set_up("/api/v1/webhook-subscriptions", told).await;
        made["subscription"]["id"].as_str().unwrap().to_owned()
    }

    async fn credential(&self, name: &str) -> String {
        let made = self.set_up("/api/v1/credentials", json!({ "name": name, "role": "viewer" })).await;
        made["credential"]["id"].as_str().unwrap().to_owned()
    }

    async fn thing(&self, name: &str) -> String {
        self.set_up("/api/v1/entity-workflows", things(name, "closed")).await;
        self.set_up(&format!("/api/v1/entities/{name}"), json!({ "id": "t", "status": "open" })).await;
        format!("/api/v1/entities/{name}/t")
    }

    async fn promise(&self, id: &str) -> String {
        self.set_up("/api/v1/promises", json!({ "id": id })).await;
        id.to_owned()
    }

    /// The request that calls `route`, with its preconditions.
    async fn request(&self, route: &str) -> (String, Value) {
        let (path, body) = match route {
            "POST /api/v1/workflow-definitions" => (
                "/api/v1/workflow-definitions".into(),
                json!({ "name": "up", "version": 1, "steps": [{ "name": "a", "type": "task", "task": "echo" }] }),
            ),
            "POST /api/v1/push-workers" => ("/api/v1/push-workers".into(), function("f1")),
            "DELETE /api/v1/push-workers/{id}" => {
                let made = self.set_up("/api/v1/push-workers", function("f2")).await;
                (format!("/api/v1/push-workers/{}", made["pushWorker"]["id"].as_str().unwrap()), json!({}))
            }
            "POST /api/v1/workflow-runs/{id}/cancel" => {
                (format!("{RUNS}/{}/cancel", self.waiting("w1").await), json!({}))
            }
            "POST /api/v1/workflow-runs/{id}/pause" => {
                (format!("{RUNS}/{}/pause", self.waiting("w2").await), json!({}))
            }
            "POST /api/v1/workflow-runs/{id}/resume" => {
                let run = self.waiting("w3").await;
                self.set_up(&format!("{RUNS}/{run}/pause"), json!({})).await;
                (format!("{RUNS}/{run}/resume"), json!({}))
            }
            "POST /api/v1/workflow-runs/{id}/retry" => {
                let step = json!({
                    "name": "pay", "type": "http", "method": "POST", "url": self.provider.url("/fail"), "retry": { "maxAttempts": 1 },
                });
                let run = self.run("w4", step).await;
                self.server.until(&run, "FAILED").await;
                (format!("{RUNS}/{run}/retry"), json!({}))
            }
            "POST /api/v1/workflow-runs/{id}/approvals/{step}" => (
                format!("{RUNS}/{}/approvals/sign-off", self.waiting("w5").await),
                json!({ "decision": "approve", "comment": "fine" }),
            ),
            "POST /api/v1/workflow-runs/{id}/reveal" => {
                (format!("{RUNS}/{}/reveal", self.waiting("w10").await), json!({ "reason": "a complaint" }))
            }
            "POST /api/v1/workflow-runs/{id}/notes" => {
                (format!("{RUNS}/{}/notes", self.waiting("w6").await), json!({ "text": "seen" }))
            }
            "POST /api/v1/keys/{scope}/{key}/release" => {
                self.ended("w7").await;
                ("/api/v1/keys/run/key%20of%20w7/release".into(), json!({ "reason": "again, please" }))
            }
            "POST /api/v1/doubts/{run}/{step}/propose" => {
                let (run, version) = self.doubted("w9").await;
                let body =
                    json!({ "resolution": "abandon", "reason": "asked", "version": version, "by": "Meg" });
                (format!("/api/v1/doubts/{run}/send/propose"), body)
            }
            "POST /api/v1/doubts/{run}/{step}/resolve" => {
                let (run, version) = self.doubted("w8").await;
                let body = json!({ "resolution": "happened", "output": {}, "reason": "asked", "version": version, "by": "Meg" });
                (format!("/api/v1/doubts/{run}/send/resolve"), body)
            }
            "PATCH /api/v1/workflow-definitions/{id}" => (
                format!("/api/v1/workflow-definitions/{}", self.definition("d1").await),
                json!({ "status": "archived" }),
            ),
            "DELETE /api/v1/workflow-definitions/{id}" => {
                (format!("/api/v1/workflow-definitions/{}", self.definition("d2").await), json!({}))
            }
            "POST /api/v1/workspaces" => ("/api/v1/workspaces".into(), json!({ "name": "initech" })),
            "POST /api/v1/credentials" => {
                ("/api/v1/credentials".into(), json!({ "name": "new", "role": "viewer" }))
            }
            "POST /api/v1/credentials/{id}/rotate" => {
                (format!("/api/v1/credentials/{}/rotate", self.credential("c1").await), json!({}))
            }
            "POST /api/v1/credentials/{id}/revoke" => {
                (format!("/api/v1/credentials/{}/revoke", self.credential("c2").await), json!({}))
            }
            "POST /api/v1/webhook-subscriptions" => (
                "/api/v1/webhook-subscriptions".into(),
                json!({ "name": "new", "url": "https://example.com/hooks", "events": ["run.failed"] }),
            ),
            "POST /api/v1/webhook-subscriptions/{id}/rotate" => {
                (format!("/api/v1/webhook-subscriptions/{}/rotate", self.subscription("s1").await), json!({}))
            }
            "PATCH /api/v1/webhook-subscriptions/{id}" => (
                format!("/api/v1/webhook-subscriptions/{}", self.subscription("s3").await),
                json!({ "status": "disabled" }),
            ),
            "DELETE /api/v1/webhook-subscriptions/{id}" => {
                (format!("/api/v1/webhook-subscriptions/{}", self.subscription("s4").await), json!({}))
            }
            "POST /api/v1/promises/{ref}/resolve" => {
                self.set_up("/api/v1/promises", json!({ "id": "p1", "idempotencyKey": "key of p1" })).await;
                ("/api/v1/promises/key:key%20of%20p1/resolve".into(), json!({ "value": 1 }))
            }
            "POST /api/v1/promises/{ref}/reject" => (
                format!("/api/v1/promises/id:{}/reject", self.promise("p2").await),
                json!({ "message": "no" }),
            ),
            "POST /api/v1/promises/{ref}/tokens" => {
                (format!("/api/v1/promises/id:{}/tokens", self.promise("p3").await), json!({}))
            }
            "POST /api/tenants/{slug}/promises/{ref}/resolve" => (
                format!("/api/tenants/acme/promises/id:{}/resolve", self.promise("p4").await),
                json!({ "value": 1 }),
            ),
            "POST /api/tenants/{slug}/promises/{ref}/reject" => (
                format!("/api/tenants/acme/promises/id:{}/reject", self.promise("p5").await),
                json!({ "message": "no" }),
            ),
            "PATCH /promises/{id}" => {
                (format!("/promises/{}", self.promise("p6").await), json!({ "state": "RESOLVED" }))
            }
            "POST /api/v1/webhook-sources" => ("/api/v1/webhook-sources".into(), source("src0", 1)),
            "PUT /api/v1/webhook-sources/{name}" => {
                self.set_up("/api/v1/webhook-sources", source("src1", 1)).await;
                ("/api/v1/webhook-sources/src1".into(), source("src1", 2))
            }
            "DELETE /api/v1/webhook-sources/{name}" => {
                self.set_up("/api/v1/webhook-sources", source("src2", 1)).await;
                ("/api/v1/webhook-sources/src2".into(), json!({}))
            }
            "PATCH /api/v1/webhook-sources/{name}" => {
                self.set_up("/api/v1/webhook-sources", source("src3", 1)).await;
                ("/api/v1/webhook-sources/src3".into(), json!({ "status": "disabled" }))
            }
            "POST /api/v1/webhook-events/{source}/{event}/reprocess" => {
                let path = self.set_up("/api/v1/webhook-sources", source("src5", 1)).await["path"].clone();
                self.set_up(path.as_str().unwrap(), json!({ "id": "evt-1" })).await;
                ("/api/v1/webhook-events/src5/evt-1/reprocess".into(), json!({}))
            }
            "POST /api/v1/entity-workflows" => ("/api/v1/entity-workflows".into(), things("e0", "closed")),
            "PUT /api/v1/entity-workflows/{name}" => {
                self.set_up("/api/v1/entity-workflows", things("e1", "closed")).await;
                ("/api/v1/entity-workflows/e1".into(), things("e1", "shut"))
            }
            "DELETE /api/v1/entity-workflows/{name}" => {
                self.set_up("/api/v1/entity-workflows", things("e9", "closed")).await;
                ("/api/v1/entity-workflows/e9".into(), json!({}))
            }
            "POST /api/v1/entities/{type}/{id}/steps/{stepKey}" => {
                (format!("{}/steps/close", self.thing("e2").await), json!({ "idempotencyKey": "close e2" }))
            }
            "POST /api/v1/entities/{type}/{id}/steps/{stepKey}/override" => (
                format!("{}/steps/close/override", self.thing("e3").await),
                json!({ "reason": "to be sure" }),
            ),
            "POST /api/v1/entities/{type}/{id}/notes" => {
                (format!("{}/notes", self.thing("e4").await), json!({ "text": "seen" }))
            }
            "POST /api/v1/operations/{id}/resolve" => {
                let path = format!("{}/steps/send", self.thing("e5").await);
                let doubted = self.server.send("POST", &path, Some("{}".into()), &self.other, &[]).await;
                assert_eq!(doubted.told(), (409, "operation_in_doubt".into()), "{}", doubted.text());
                let operation = doubted.json()["operation"]["id"].as_str().unwrap().to_owned();
                let body = json!({ "resolution": "did_not_happen", "attempt": 1, "reason": "asked" });
                (format!("/api/v1/operations/{operation}/resolve"), body)
            }
            other => panic!("this test does not know how to call {other}"),
        };
        (path, body)
    }

    /// Entries of the prober, by the filter of the audit log.
    async fn entries(&self, reader: &str, credential: &str) -> Vec<Value> {
        let path = format!("/api/v1/audit?limit=200&credential={credential}");
        let answer = self.server.send("GET", &path, None, reader, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"].as_array().unwrap().clone()
    }
}

/// A new admin of acme; all of them are named alike.
async fn issue(server: &TestServer) -> (String, String) {
    let made =
        server.post("/api/v1/credentials", &json!({ "name": "desk", "role": "admin" }), &[]).await.json();
    (made["apiKey"].as_str().unwrap().to_owned(), made["credential"]["id"].as_str().unwrap().to_owned())
}

/// Fails for a route that is not in the table, or no longer exists.
#[test]
fn every_route_that_changes_something_says_what_it_leaves_in_the_audit_log() {
    let routes: BTreeSet<String> = list_routes()
        .into_iter()
        .filter(|(method, _, access)| *method != http::Method::GET && *access != Access::Open)
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    let listed: BTreeSet<String> = table().into_iter().map(|(route, _)| route.to_owned()).collect();
    assert_eq!(routes, listed);
    for (route, leaves) in table() {
        if let ExpectedAudit::Elsewhere(file, name) = leaves {
            assert!(file.contains(name), "{route}: {name} is gone");
        }
        if let ExpectedAudit::Nothing(why) = leaves {
            assert!(!why.is_empty());
        }
    }
}

/// CONTRACT §13: "The audit log names credential, person, address and trace of every decision."
#[tokio::test]
async fn everything_that_a_person_changes_leaves_one_entry_that_names_them() {
    let acme = AuditedWorkspace::new().await;
    let installation = acme.server.key(INSTALLATION, Role::Admin).await;
    for (number, (route, leaves)) in table().into_iter().enumerate() {
        let ExpectedAudit::One(what) = leaves else { continue };
        let (path, body) = acme.request(route).await;
        let method = route.split_once(' ').unwrap().0;
        let trace = format!("{:032x}", 0x4bf9_2f35_77b3_4da6_0000_0000_0000_0000u128 + number as u128);
        let parent = format!("00-{trace}-00f067aa0ba902b7-01");
        let headers = [("traceparent", parent.as_str())];
        let is_install = route == "POST /api/v1/workspaces";
        let key = if is_install { &installation } else { &acme.prober };
        let before = acme.entries(&acme.other, &acme.prober_id).await;
        let answer = acme.server.send(method, &path, Some(body.to_string()), key, &headers).await;
        assert!(matches!(answer.status, 200..=202), "{route}: {} {}", answer.status, answer.text());
        let entry = match is_install {
            false => {
                let after = acme.entries(&acme.other, &acme.prober_id).await;
                assert_eq!(after.len(), before.len() + 1, "{route}: {after:#?}");
                after.last().unwrap().clone()
            }
            true => {
                let reader = acme.server.key("initech", Role::Viewer).await;
                let answer = acme
                    .server
                    .send("GET", "/api/v1/audit?action=workspace_changed", None, &reader, &[])
                    .await;
                assert_eq!(answer.json()["items"].as_array().unwrap().len(), 1, "{}", answer.text());
                answer.json()["items"][0].clone()
            }
        };
        assert_eq!(entry["what"], what, "{route}: {entry}");
        let by = &entry["actor"];
        assert_eq!((&by["role"], &by["traceId"]), (&json!("admin"), &json!(trace)), "{route}: {entry}");
        assert_eq!(by["address"], "127.0.0.1", "{route}: {entry}");
        if !is_install {
            assert_eq!(by["credentialId"], acme.prober_id, "{route}: {entry}");
        }
        // A repeated request changes nothing, and leaves no entry.
        if what == "promise_settled" {
            acme.server.send(method, &path, Some(body.to_string()), key, &headers).await;
            assert_eq!(acme.entries(&acme.other, &acme.prober_id).await.len(), before.len() + 1, "{route}");
        }
    }
    for (filter, whats) in [
        ("name=Meg", vec!["resolved", "ruling_proposed"]),
        ("entity=e3/t", vec!["overridden"]),
        ("promise=p1", vec!["promise_settled"]),
        ("key=run/key%20of%20w7", vec!["key_released"]),
        ("action=approval_answered", vec!["approval_answered"]),
        ("action=step_taken&entity=e2/t", vec!["step_taken"]),
        ("since=2999-01-01T00:00:00Z", vec![]),
        ("until=2000-01-01T00:00:00Z", vec![]),
    ] {
        let page = acme.server.get(&format!("/api/v1/audit?{filter}")).await.json();
        let found: Vec<&str> =
            page["items"].as_array().unwrap().iter().map(|entry| entry["what"].as_str().unwrap()).collect();
        assert_eq!(found, whats, "{filter}: {page:#}");
    }
    for bad in
        ["action=claimed", "action=nothing", "since=yesterday", "entity=e3", "run=x", "entity=a/b&promise=c"]
    {
        let refused = acme.server.get(&format!("/api/v1/audit?{bad}")).await;
        assert!(matches!(refused.status, 400 | 404), "{bad}: {}", refused.text());
    }
}

/// A settlement by a link has no name: the log has the token and the address. A page is bound to
/// its filter.
#[tokio::test]
async fn a_settlement_by_a_link_is_audited_and_pages_of_the_log_follow_on_each_other() {
    let server = TestServer::sqlite().await;
    for id in ["a", "b", "c"] {
        server.post("/api/v1/promises", &json!({ "id": id }), &[]).await;
        let token = server.post(&format!("/api/v1/promises/id:{id}/tokens"), &json!({}), &[]).await.json();
        let url = token["url"].as_str().unwrap().to_owned();
        let settled = server.send("POST", &url, Some(json!({ "value": 1 }).to_string()), "", &[]).await;
        assert_eq!(settled.status, 200, "{}", settled.text());
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/audit?action=promise_settled&limit=2{cursor}")).await.json();
        for entry in page["items"].as_array().unwrap() {
            assert_eq!(entry["actor"]["address"], "127.0.0.1", "{entry}");
            assert!(entry["actor"]["credentialId"].as_str().unwrap().starts_with("settle_"), "{entry}");
            seen.push(entry["target"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        let elsewhere = server.get(&format!("/api/v1/audit?action=steered&cursor={next}")).await;
        assert_eq!(elsewhere.status, 400, "{}", elsewhere.text());
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["promise a", "promise b", "promise c"]);
}
