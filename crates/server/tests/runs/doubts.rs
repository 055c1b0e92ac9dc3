//! Effects with an unknown outcome, over HTTP: CONTRACT §6.

use std::time::Duration;

use hapax_outgoing::{Fault, Outgoing, Request, Rules};
use serde_json::{Value, json};

use super::RUNS;
use super::support::{Provider, Role, Setup, TestServer};

struct Bank {
    server: TestServer,
    provider: Provider,
    wire: String,
}

/// A bank that hangs up after it has read the order, so the outcome is unknown.
async fn bank(server: TestServer) -> Bank {
    let provider = Provider::start().await;
    let document = json!({
        "name": "wire", "version": 1,
        "steps": [
            {
                "name": "send", "type": "http", "method": "POST", "url": provider.url("/cut"), "body": { "cents": 5 },
                "effect": "claimed", "nonIdempotent": true, "output": { "id": "{{ response.body.id }}" },
            },
            { "name": "tell", "type": "task", "task": "echo", "input": { "told": "{{ state.id }}" } },
        ],
    });
    let wire = server.upload(&document).await;
    Bank { server, provider, wire }
}

impl Bank {
    /// A run in doubt; answers its id and the doubt.
    async fn doubt(&self) -> (String, Value) {
        let run = self.server.start(&self.wire, json!({})).await;
        let is_listed =
            |page: &Value| page["items"].as_array().unwrap().iter().any(|item| item["runId"] == json!(run));
        let page = self.server.until_shown("/api/v1/doubts", is_listed).await;
        let doubt = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["runId"] == json!(run))
            .unwrap()
            .clone();
        (run, doubt)
    }
}

/// A provider may take as long as the document says: its request is not cut earlier, so it does not
/// become in doubt.
#[tokio::test]
async fn the_timeout_of_a_step_and_of_its_probe_is_the_one_in_the_document() {
    let moment = Duration::from_millis(300);
    let rules = Rules { allow_loopback: true, total_timeout: moment, ..Rules::default() };
    let outgoing = Outgoing::new(rules.clone()).unwrap();
    let server = TestServer::memory_with(Setup { rules, ..Setup::default() }).await;
    let provider = Provider::start().await;
    let wire = |name: &str, path: &str, probed: &str| {
        json!({
            "name": name, "version": 1,
            "steps": [{
                "name": "send", "type": "http", "method": "POST", "url": provider.url(path), "timeout": "10m",
                "effect": "claimed", "output": { "id": "{{ response.body.id }}" },
                "probe": {
                    "method": "GET", "url": provider.url(probed), "timeout": "10m", "happened": "true",
                    "output": { "id": "{{ response.body.id }}" },
                },
            }],
        })
    };
    let slow = server.upload(&wire("slow", "/held/step", "/never")).await;
    let probed = server.upload(&wire("probed", "/cut", "/held/probe")).await;
    let runs = [server.start(&slow, json!({})).await, server.start(&probed, json!({})).await];
    for path in ["/held/step", "/held/probe"] {
        provider.until_asked(path, 1).await;
    }
    // The default timeout of requests without one of their own.
    let other = outgoing.send(Request::get(provider.url("/held/other"))).await;
    assert!(matches!(other, Err(Fault::Unknown { .. })), "{other:?}");
    provider.release();
    for run in runs {
        let ended = server.until(&run, "COMPLETED").await;
        assert!(ended["run"]["output"]["id"].is_string(), "{ended}");
    }
    let asked = |path: &str| provider.asked().iter().filter(|asked| asked.path == path).count();
    assert_eq!((asked("/held/step"), asked("/held/probe"), asked("/never")), (1, 1, 0));
}

/// IN_DOUBT is listed with everything needed to decide, is decided once by a permitted role, and
/// never runs again by itself.
#[tokio::test]
async fn a_doubt_is_listed_and_resolved() {
    let bank = bank(TestServer::sqlite().await).await;
    let server = &bank.server;
    let (run, doubt) = bank.doubt().await;
    assert_eq!((&doubt["stepId"], &doubt["workflow"]), (&json!("send"), &json!("wire")));
    assert_eq!(doubt["effectKey"], format!("{run}:send"));
    assert!(doubt["since"].is_string() && doubt["failure"]["message"].is_string(), "{doubt}");
    let shown = server.get(&format!("{RUNS}/{run}")).await.json();
    assert_eq!(shown["steps"][0]["status"], "IN_DOUBT");
    let path = format!("/api/v1/doubts/{run}/send/resolve");
    let version = doubt["version"].as_u64().unwrap();
    let happened = json!({ "resolution": "happened", "output": { "id": "w_9" }, "reason": "seen at the bank", "version": version });
    let mut stale = happened.clone();
    stale["version"] = json!(version + 100);
    assert_eq!(server.post(&path, &stale, &[]).await.told(), (409, "doubt_changed".into()));
    let mut unreasoned = happened.clone();
    unreasoned["reason"] = json!(" ");
    assert_eq!(server.post(&path, &unreasoned, &[]).await.told(), (400, "ruling_incomplete".into()));
    for (field, words) in [("reason", "x".repeat(4_097)), ("by", "x".repeat(129)), ("by", " ".into())] {
        let mut odd = happened.clone();
        odd[field] = json!(words);
        let refused = server.post(&path, &odd, &[]).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{field}");
        assert_eq!(refused.json()["path"], format!("/{field}"));
    }
    let viewer = server.key("acme", Role::Viewer).await;
    let refused = server.send("POST", &path, Some(happened.to_string()), &viewer, &[]).await;
    assert_eq!(refused.told(), (403, "forbidden".into()));
    let key = [("idempotency-key", "ruling")];
    let resolved = server.post(&path, &happened, &key).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    assert_eq!(
        (&resolved.json()["resolution"], &resolved.json()["actor"]["name"]),
        (&json!("happened"), &json!("admin of acme"))
    );
    assert_eq!(server.post(&path, &happened, &key).await.bytes, resolved.bytes);
    let ended = server.end(&run).await;
    assert_eq!(ended["run"]["output"], json!({ "id": "w_9", "told": "w_9" }), "{ended}");
    let too_late = server.post(&path, &happened, &[]).await;
    assert_eq!(too_late.status, 409, "{}", too_late.text());
    assert_eq!(bank.provider.asked().len(), 1, "it was sent once");
    assert_eq!(server.get("/api/v1/doubts").await.json()["items"], json!([]));
    let audit = server.get("/api/v1/audit").await.json();
    let entry =
        audit["items"].as_array().unwrap().iter().find(|entry| entry["what"] == "resolved").unwrap().clone();
    assert_eq!((&entry["reason"], &entry["stepId"]), (&json!("seen at the bank"), &json!("send")), "{entry}");
    let ledger = server.get(&format!("{RUNS}/{run}/ledger")).await.json();
    assert_eq!(ledger["items"][0]["class"], "claimed", "{ledger}");
    assert_eq!(ledger["items"][0]["rulings"][0]["resolution"], "happened");
    assert_eq!(ledger["items"][0]["attemptLog"][0]["status"], "completed", "people know now");
}

/// S2.46, CONTRACT §6: an irreversible ruling needs a credential of the role manager, whatever
/// names a request gives.
#[tokio::test]
async fn an_irreversible_ruling_needs_a_manager() {
    let bank = bank(TestServer::memory().await).await;
    let server = &bank.server;
    let (run, doubt) = bank.doubt().await;
    let path = format!("/api/v1/doubts/{run}/send/resolve");
    let again =
        json!({ "resolution": "did_not_happen", "reason": "the bank says no", "version": doubt["version"] });
    let abandon =
        json!({ "resolution": "abandon", "reason": "nobody will know", "version": doubt["version"] });
    let operator = server.key("acme", Role::Operator).await;
    let manager = server.key("acme", Role::Manager).await;
    let mut refusals = 0;
    for ruling in [&again, &abandon] {
        let answer = server.send("POST", &path, Some(ruling.to_string()), &operator, &[]).await;
        match answer.told() {
            (403, code) => {
                assert_eq!(code, "needs_manager");
                refusals += 1;
            }
            other => panic!("an operator may not decide {ruling}: {other:?} {}", answer.text()),
        }
    }
    assert_eq!(refusals, 2);
    for by in ["Maria", "manager of acme", "Maria (manager of acme)"] {
        let mut named = abandon.clone();
        named["by"] = json!(by);
        let answer = server.send("POST", &path, Some(named.to_string()), &operator, &[]).await;
        assert_eq!(answer.told(), (403, "needs_manager".into()), "{by}");
        assert_eq!(answer.json()["requiredRole"], "manager");
        named["secondedBy"] = json!("Grace");
        let answer = server.send("POST", &path, Some(named.to_string()), &operator, &[]).await;
        assert_eq!(answer.told(), (400, "invalid_request".into()), "nobody agrees by being written down");
    }
    let by = {
        let mut ruling = abandon.clone();
        ruling["by"] = json!("Maria");
        ruling
    };
    let resolved = server.send("POST", &path, Some(by.to_string()), &manager, &[]).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    assert_eq!(resolved.json()["actor"]["name"], "Maria (manager of acme)");
    server.until(&run, "FAILED").await;
    assert_eq!(bank.provider.asked().len(), 1);
}

/// Doubts are listed page by page, the longest in doubt first.
#[tokio::test]
async fn doubts_are_listed_page_by_page() {
    let bank = bank(TestServer::sqlite().await).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(bank.doubt().await.0);
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/doubts?limit=1".to_owned();
    loop {
        let page = bank.server.get(&path).await.json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["runId"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/api/v1/doubts?limit=1&cursor={cursor}");
    }
    assert_eq!(seen, made);
}

/// Of fifty equal rulings one counts; the others get the name of its author.
#[tokio::test]
async fn one_of_several_racing_rulings_wins() {
    let bank = bank(TestServer::sqlite().await).await;
    let server = &bank.server;
    let (run, doubt) = bank.doubt().await;
    let path = format!("/api/v1/doubts/{run}/send/resolve");
    let ruling = json!({ "resolution": "happened", "output": { "id": "w_9" }, "reason": "seen", "version": doubt["version"] });
    let rulings = (0..50).map(|_| server.post(&path, &ruling, &[]));
    let answers = futures_util::future::join_all(rulings).await;
    let (counted, others): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(counted.len(), 1, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    for other in others {
        assert_eq!(other.told(), (409, "doubt_resolved".into()), "{}", other.text());
        assert_eq!(other.json()["decidedBy"]["name"], "admin of acme", "{}", other.text());
        assert_eq!(other.json()["decision"], "happened");
    }
    server.end(&run).await;
    let audit = server.get("/api/v1/audit?action=resolved").await.json();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    // Long after the end, a request still gets the same response.
    let late = server.post(&path, &ruling, &[]).await;
    assert_eq!(late.told(), (409, "doubt_resolved".into()), "{}", late.text());
    assert_eq!(late.json()["decidedBy"]["role"], "admin");
}

/// CONTRACT §6: an irreversible ruling takes a manager. An operator proposes it, and a manager confirms it.
#[tokio::test]
async fn an_operator_proposes_and_a_manager_confirms() {
    let bank = bank(TestServer::sqlite().await).await;
    let server = &bank.server;
    let (operator, other) =
        (server.key("acme", Role::Operator).await, server.key("acme", Role::Operator).await);
    let manager = server.key("acme", Role::Manager).await;
    let (run, doubt) = bank.doubt().await;
    assert_eq!(doubt["takesTwoPeople"], false);
    let send = async |what: &str, key: &str, body: Value, headers: &[(&str, &str)]| {
        server
            .send("POST", &format!("/api/v1/doubts/{run}/send/{what}"), Some(body.to_string()), key, headers)
            .await
    };
    let ruling =
        json!({ "resolution": "abandon", "reason": "the bank does not know", "version": doubt["version"] });
    let alone = send("resolve", &operator, ruling.clone(), &[]).await;
    assert_eq!(alone.told(), (403, "needs_manager".into()));
    let key = [("idempotency-key", "proposal-1")];
    let proposed = send("propose", &operator, ruling.clone(), &key).await;
    assert_eq!(proposed.status, 200, "{}", proposed.text());
    assert_eq!(send("propose", &operator, ruling.clone(), &key).await.bytes, proposed.bytes);
    let id = proposed.json()["proposalId"].clone();
    let notes = server.get(&format!("{RUNS}/{run}/notes?limit=200")).await.json();
    let open: Vec<&Value> =
        notes["items"].as_array().unwrap().iter().filter(|it| it["what"] == "ruling_proposed").collect();
    assert_eq!((open.len(), &open[0]["proposalId"]), (1, &id), "{notes}");
    assert_eq!(
        server.get("/api/v1/doubts").await.json()["items"].as_array().unwrap().len(),
        1,
        "nothing is settled"
    );

    let confirmation =
        |version: Value| json!({ "proposalId": id, "reason": "I called them as well", "version": version });
    let sound = confirmation(doubt["version"].clone());
    assert_eq!(
        send("confirm", &operator, sound.clone(), &[]).await.told(),
        (403, "needs_second_person".into())
    );
    assert_eq!(send("confirm", &other, sound.clone(), &[]).await.told(), (403, "needs_manager".into()));
    let old = send("confirm", &manager, confirmation(json!(1)), &[]).await;
    assert_eq!(old.told(), (409, "doubt_changed".into()), "{}", old.text());
    let unknown = json!({ "proposalId": "x", "reason": "r", "version": doubt["version"] });
    assert_eq!(send("confirm", &manager, unknown, &[]).await.told(), (409, "doubt_changed".into()));
    let key = [("idempotency-key", "confirmation-1")];
    let confirmed = send("confirm", &manager, sound.clone(), &key).await;
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    assert_eq!(confirmed.json()["actor"]["name"], "manager of acme");
    assert_eq!(send("confirm", &manager, sound.clone(), &key).await.bytes, confirmed.bytes);
    assert_eq!(send("confirm", &manager, sound, &[]).await.status, 409, "it is decided");
    server.until(&run, "FAILED").await;
    let audit = server.get("/api/v1/audit?action=resolved").await.json();
    let entry = &audit["items"][0];
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(
        (&entry["actor"]["name"], &entry["secondedBy"]["name"]),
        (&json!("manager of acme"), &json!("operator of acme"))
    );
}

/// With `four-eyes`, a manager does not decide alone either.
#[tokio::test]
async fn where_two_people_always_decide_a_manager_needs_somebody_else() {
    let engine = hapax_engine::EngineOptions { four_eyes: true, ..Setup::default().engine };
    let bank = bank(TestServer::memory_with(Setup { engine, ..Setup::default() }).await).await;
    let server = &bank.server;
    let operator = server.key("acme", Role::Operator).await;
    let (run, doubt) = bank.doubt().await;
    assert_eq!(doubt["takesTwoPeople"], true);
    let send = async |what: &str, key: &str, body: Value| {
        server
            .send("POST", &format!("/api/v1/doubts/{run}/send/{what}"), Some(body.to_string()), key, &[])
            .await
    };
    let ruling =
        json!({ "resolution": "did_not_happen", "reason": "not in the list", "version": doubt["version"] });
    assert_eq!(
        send("resolve", &server.admin, ruling.clone()).await.told(),
        (403, "needs_second_person".into())
    );
    let id = send("propose", &server.admin, ruling).await.json()["proposalId"].clone();
    let confirmation = json!({ "proposalId": id, "reason": "nor in mine", "version": doubt["version"] });
    assert_eq!(
        send("confirm", &server.admin, confirmation.clone()).await.told(),
        (403, "needs_second_person".into())
    );
    let confirmed = send("confirm", &operator, confirmation).await;
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    // A reversible ruling needs no second person.
    let (run, doubt) = bank.doubt().await;
    let happened = json!({ "resolution": "happened", "output": { "id": "w_9" }, "reason": "in the list", "version": doubt["version"] });
    let body = Some(happened.to_string());
    let path = format!("/api/v1/doubts/{run}/send/resolve");
    assert_eq!(server.send("POST", &path, body, &operator, &[]).await.status, 200);
}
