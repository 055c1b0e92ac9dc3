//! What a new support agent asks, answered from the console alone: each within a few clicks from any page.

use serde_json::{Value, json};

use super::super::entities::invoice_fixture::make;
use super::support::{Provider, Role, TestServer};
use super::webdriver::{BrowserSettings, Chromium};

/// Somebody who counts what it takes.
struct Agent {
    page: Chromium,
    loads: usize,
}

impl Agent {
    async fn at_work(server: &TestServer, role: Role) -> Self {
        let page = Chromium::start(BrowserSettings::DESK).await;
        page.sign_in(&server.url, &server.key("acme", role).await, "/console/evidence").await;
        Agent { page, loads: 0 }
    }

    /// Types into the box that is on every page.
    async fn search(&mut self, text: &str, expected: &str) -> String {
        self.page.run("document.querySelector('.search input').value = ''").await;
        self.page.fill(".search input", text).await;
        self.page.press_enter(".search input").await;
        self.loads += 1;
        self.page.until_says(expected).await
    }

    async fn click(&mut self, css: &str, expected: &str) -> String {
        self.page.click(css).await;
        self.loads += 1;
        self.page.until_says(expected).await
    }
}

#[tokio::test]
async fn why_is_order_4711_stuck() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "order", "version": 1, "steps": [
        { "name": "reserve", "type": "task", "task": "echo" },
        { "name": "packed", "type": "promise", "key": "packed:{{ input.order }}", "timeout": "3d" },
    ] });
    let definition = server.upload(&document).await;
    let asked = json!({ "definitionId": definition, "input": { "order": "4711" }, "subject": "4711", "idempotencyKey": "order-4711" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.until(&run, "WAITING").await;
    let mut agent = Agent::at_work(&server, Role::Operator).await;
    let said = agent.search("4711", "It waits for").await;
    assert!(said.contains("packed:4711") && said.contains("Resolve it") && said.contains(&run), "{said}");
    assert_eq!(agent.loads, 1);
    agent.page.keep_picture("task-why-is-4711-stuck").await;
}

#[tokio::test]
async fn was_customer_12_charged_twice() {
    let server = TestServer::memory().await;
    let provider = Provider::start().await;
    let document = |name: &str, path: &str| {
        json!({ "name": name, "version": 1, "steps": [{
            "name": "charge", "type": "http", "method": "POST", "url": provider.url(path), "body": { "cents": 5 }, "effect": "claimed",
        }] })
    };
    let good = server.upload(&document("good", "/charges")).await;
    let lost = server.upload(&document("lost", "/cut")).await;
    for (definition, subject) in [(&good, "customer-12"), (&lost, "customer-13")] {
        let asked = json!({ "definitionId": definition, "input": {}, "subject": subject });
        server.post("/api/v1/workflow-runs", &asked, &[]).await;
    }
    let is_doubt = |page: &Value| page["items"].as_array().is_some_and(|items| !items.is_empty());
    server.until_shown("/api/v1/doubts", is_doubt).await;
    server.until_shown("/api/v1/workflow-runs?status=COMPLETED", is_doubt).await;
    let mut agent = Agent::at_work(&server, Role::Viewer).await;
    let said = agent.search("customer-12", "Nothing happened twice.").await;
    let host = provider.url("").replace("http://", "");
    assert!(said.contains("charge") && said.contains(&host) && said.contains("1×"), "{said}");
    assert_eq!(agent.loads, 1);
    agent.page.keep_picture("task-was-customer-12-charged-twice").await;
    let said = agent.search("customer-13", "nobody knows yet whether it happened").await;
    assert!(said.contains("In doubt"), "{said}");
}

#[tokio::test]
async fn who_released_a_key_and_why() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let asked = json!({ "definitionId": definition, "input": {}, "idempotencyKey": "order-4711" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.end(&run).await;
    let released = json!({ "reason": "typed twice by the shop" });
    let answer = server.post("/api/v1/keys/run/order-4711/release", &released, &[]).await;
    assert!(answer.status < 300, "{}", answer.text());
    let mut agent = Agent::at_work(&server, Role::Viewer).await;
    let said = agent.search("order-4711", "What people did with this key").await;
    assert!(said.contains("typed twice by the shop") && said.contains("admin of acme"), "{said}");
    assert_eq!(agent.loads, 1);
    agent.page.keep_picture("task-who-released-the-key").await;
}

#[tokio::test]
async fn which_webhooks_failed_this_morning() {
    let server = TestServer::memory().await;
    let source = json!({
        "name": "shop", "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "missing", "input": {} } }],
    });
    let source = server.post("/api/v1/webhook-sources", &source, &[]).await;
    assert_eq!(source.status, 201, "{}", source.text());
    let path = source.json()["path"].as_str().unwrap().to_owned();
    for id in ["evt_1", "evt_2"] {
        server.send("POST", &path, Some(json!({ "id": id }).to_string()), "", &[]).await;
        server
            .until_shown(&format!("/api/v1/webhook-events/shop/{id}"), |event| event["status"] == "failed")
            .await;
    }
    let mut agent = Agent::at_work(&server, Role::Viewer).await;
    let said = agent.click(".side a[href='/console/webhooks']", "Received and failed").await;
    assert!(said.contains("Sent and given up"), "{said}");
    let said = agent.click("a.tile[href='/console/webhooks?status=failed']", "evt_2").await;
    assert!(said.contains("evt_1") && said.contains("missing") && said.contains("The newest: "), "{said}");
    assert_eq!(agent.loads, 2);
    agent.page.keep_picture("task-which-webhooks-failed").await;
}

/// The seed's scenario, clause by clause: a refund is asked for by two people, is decided by the bank, and cannot be asked for
/// twice; support sees the pending one and leaves a note; a manager may force it, with a reason.
#[tokio::test]
async fn the_refund_of_the_support_desk_clause_by_clause() {
    let server = TestServer::memory().await;
    server.upload(&json!({ "name": "ask-bank", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] })).await;
    let workflow = json!({
        "name": "refunds", "module": "billing", "entity": "refund", "status_types": ["open", "refunding", "refunded"], "initial": ["open"],
        "steps": [{
            "step_id": 10, "step_key": "refund", "status": "open", "successful_state": "refunded", "claim_state": ["refunding", "open"],
            "action": { "workflow": "ask-bank" }, "effect": "non_idempotent", "irreversible": "once",
        }],
    });
    let made = server.post("/api/v1/entity-workflows", &workflow, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    make(&server, "refund", "R123", "open").await;
    let desk = "/console/entities/refund/R123";

    // Support begins the refund; the button needs no reload to be gone.
    let support = Chromium::start(BrowserSettings::DESK).await;
    support.sign_in(&server.url, &server.key("acme", Role::Operator).await, desk).await;
    support.until_says("Cannot be taken back.").await;
    support.click(".step-button details.disclosed > summary").await;
    support.click(".step-button button[type=submit]").await;
    let said = support.until_says("is in progress since").await;
    let operations = server.get("/api/v1/entities/refund/R123/operations").await.json();
    let operation = operations["items"][0]["id"].as_str().unwrap().to_owned();
    assert!(said.contains(&operation), "the pending refund's id is shown: {said}");
    let count = async || {
        server.get("/api/v1/entities/refund/R123/operations").await.json()["items"].as_array().unwrap().len()
    };
    assert_eq!(count().await, 1);

    // A second agent sees the disabled button, why, and who asked; and can leave a note.
    let second = Chromium::start(BrowserSettings::DESK).await;
    second.sign_in(&server.url, &server.key("acme", Role::Operator).await, desk).await;
    let said = second.until_says("is in progress since").await;
    assert!(
        said.contains(&operation)
            && said.contains("operator of acme")
            && said.contains("steps in if the holder stays silent"),
        "{said}"
    );
    assert_eq!(second.run("return document.querySelector('.withheld button').disabled").await, json!(true));
    second.fill("textarea[name=text]", "the customer waits").await;
    second.click(".compose button[type=submit]").await;
    second.until_says("the customer waits").await;

    // A viewer sees the same and no form that changes anything. The permission test of the seed, with its picture.
    let viewer = Chromium::start(BrowserSettings::DESK).await;
    viewer.sign_in(&server.url, &server.key("acme", Role::Viewer).await, desk).await;
    viewer.until_says(&operation).await;
    let forms = "return [...document.querySelectorAll('main form')].map(form => form.action)";
    assert_eq!(viewer.run(forms).await, json!([]));
    viewer.keep_picture("permission-viewer").await;
    support.keep_picture("permission-support").await;

    // The bank answers, and every page follows by itself.
    let run = operations["items"][0]["runId"].as_str().map(ToOwned::to_owned);
    let run = match run {
        Some(run) => run,
        None => server.get("/api/v1/workflow-runs?workflow=ask-bank").await.json()["items"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned(),
    };
    let answered = server
        .post(&format!("/api/v1/workflow-runs/{run}/signals"), &json!({ "name": "answer", "value": {} }), &[])
        .await;
    assert!(answered.status < 300, "{}", answered.text());
    support.until_says("refund R123 refunded").await;
    let said = second.until_says("refund R123 refunded").await;
    assert!(said.contains("the customer waits"), "{said}");
    assert_eq!(count().await, 1, "one refund");
    for page in [&support, &second, &viewer] {
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}
