//! Keys, the ledger and approvals in the console.

use serde_json::json;

use super::browser::{Browser, forms};
use super::support::{Role, TestServer};

async fn start_keyed(server: &TestServer, definition: &str, key: &str, input: serde_json::Value) -> u16 {
    let asked = json!({ "definitionId": definition, "input": input, "idempotencyKey": key });
    server.post("/api/v1/workflow-runs", &asked, &[]).await.status
}

/// Who released key X, and why?
#[tokio::test]
async fn a_key_tells_what_it_stands_for_and_who_released_it_why() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let key = "order/47<11>";
    assert_eq!(start_keyed(&server, &definition, key, json!({ "cents": 5 })).await, 201);
    assert_eq!(start_keyed(&server, &definition, key, json!({ "cents": 5 })).await, 200);
    assert_eq!(start_keyed(&server, &definition, key, json!({ "cents": 6 })).await, 422);
    let runs = server.get("/api/v1/workflow-runs").await.json();
    let run = runs["items"][0]["id"].as_str().unwrap().to_owned();
    server.end(&run).await;
    let manager = Browser::signed_in(&server, &server.key("acme", Role::Manager).await).await;
    let found = manager.page("/console/keys?key=order%2F47%3C11%3E").await;
    let page = "/console/keys/run/order%2F47%3C11%3E";
    assert!(found.contains(&format!("href=\"{page}\"")) && found.contains(&run), "{found}");
    let shown = manager.page(page).await;
    for part in [&run, "<b>1</b> got the first answer again", "<b>1</b> asked for something else", "cents"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("<11>"), "{shown}");
    let operator = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    assert!(!forms(&operator.page(page).await).iter().any(|form| form.action.contains("release")));
    assert!(operator.page(page).await.contains("takes a manager"));
    let release = manager.form(page, &format!("{page}/release")).await.with("reason", "typed <twice>");
    let (first, second) = tokio::join!(manager.submit(&release), manager.submit(&release));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text(), second.text());
    let after = operator.page(page).await;
    assert!(after.contains("typed &lt;twice&gt;") && after.contains("manager of acme"), "{after}");
    assert_eq!(
        start_keyed(&server, &definition, key, json!({ "cents": 6 })).await,
        201,
        "it may be used anew"
    );
}

/// A key of a request is found under whichever credential used it, by those who may list credentials.
#[tokio::test]
async fn a_key_of_a_request_is_found_under_every_credential() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let operator = server.key("acme", Role::Operator).await;
    let body = json!({ "definitionId": definition, "input": {} }).to_string();
    let sent = server
        .send("POST", "/api/v1/workflow-runs", Some(body), &operator, &[("idempotency-key", "req-1")])
        .await;
    assert_eq!(sent.status, 201, "{}", sent.text());
    let page = Browser::admin(&server).await.page("/console/keys?key=req-1").await;
    assert!(
        page.contains("POST /api/v1/workflow-runs")
            && page.contains("/console/keys/request/req-1?credential="),
        "{page}"
    );
    let nothing = Browser::admin(&server).await.page("/console/keys?key=req-2").await;
    assert!(nothing.contains("Nothing in this workspace has this key"), "{nothing}");
}

#[tokio::test]
async fn the_ledger_shows_each_effect_and_filters_by_class_and_by_how_often_it_was_entered() {
    let server = TestServer::memory().await;
    let run = server.start(&server.echo().await, json!({ "a": 1 })).await;
    server.end(&run).await;
    let viewer = Browser::signed_in(&server, &server.key("acme", Role::Viewer).await).await;
    let effect = format!("{run}:say");
    for (path, is_there) in [
        ("/console/ledger".to_owned(), true),
        ("/console/ledger?class=idempotent".to_owned(), true),
        (format!("/console/ledger?key={run}"), true),
        ("/console/ledger?class=claimed".to_owned(), false),
        ("/console/ledger?only=entered".to_owned(), false),
        ("/console/ledger?only=twice".to_owned(), false),
        ("/console/ledger?until=2001-01-01".to_owned(), false),
    ] {
        assert_eq!(viewer.page(&path).await.contains(&effect), is_there, "{path}");
    }
    let page = viewer.page("/console/ledger").await;
    assert!(page.contains("/console/evidence/export?format=csv"), "{page}");
}

#[tokio::test]
async fn an_approval_is_answered_by_whom_it_is_asked_of_and_others_are_told_whom() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "refund", "version": 1,
        "steps": [{
            "name": "sign-off", "type": "approval", "by": { "roles": ["manager"] }, "decisions": ["approve", "reject", "edit"],
            "fields": ["cents"], "show": { "cents": "{{ input.cents }}", "who": "{{ input.who }}" }, "timeout": "2d",
        }],
        "output": { "decision": "{{ steps[\"sign-off\"].output.decision }}", "value": "{{ steps[\"sign-off\"].output.value }}" },
    });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({ "cents": 9_007_199_254_740_993_i64, "who": "<i>Eve" })).await;
    server.until(&run, "WAITING").await;
    // A run that waits for something else is not in the inbox.
    let other = json!({ "name": "other", "version": 1, "steps": [{ "name": "hear", "type": "signal" }] });
    let other = server.start(&server.upload(&other).await, json!({})).await;
    server.until(&other, "WAITING").await;
    let inbox = "/console/approvals";
    let operator = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let shown = operator.page(inbox).await;
    assert!(
        shown.contains("role manager")
            && shown.contains("9007199254740993")
            && shown.contains("&lt;i&gt;Eve"),
        "{shown}"
    );
    assert!(!shown.contains(&other), "{shown}");
    let action = format!("{inbox}/{run}/sign-off/answer");
    assert!(!forms(&shown).iter().any(|form| form.action == action));
    let manager = Browser::signed_in(&server, &server.key("acme", Role::Manager).await).await;
    let page = manager.page(inbox).await;
    assert!(
        page.contains("&quot;cents&quot;: 9007199254740993"),
        "the edit begins with what was shown: {page}"
    );
    let mut found = forms(&page).into_iter().filter(|form| form.field("decision") == "edit");
    let edit = found.next().unwrap().with("value", "{\"cents\": 7}").with("comment", "half of it");
    assert_eq!(manager.submit(&edit).await.status, 303);
    let output = server.end(&run).await["run"]["output"].clone();
    assert_eq!(output, json!({ "decision": "edit", "value": { "cents": 7 } }));
    assert!(manager.page(inbox).await.contains("Nothing waits for an approval."));
    assert!(manager.page("/console/admin/audit?action=approval_answered").await.contains("half of it"));
}

/// The inbox is about workflows that ask, however many other runs wait.
#[tokio::test]
async fn an_approval_is_in_the_inbox_though_many_newer_runs_wait_for_something_else() {
    let server = TestServer::memory().await;
    let ask = |name: &str| json!({ "name": name, "version": 1, "steps": [{ "name": "sign-off", "type": "approval", "decisions": ["approve", "reject"] }] });
    let (first, second) = (server.upload(&ask("refund")).await, server.upload(&ask("discount")).await);
    let oldest = server.start(&first, json!({})).await;
    let newest = server.start(&second, json!({})).await;
    let hear = json!({ "name": "hear", "version": 1, "steps": [{ "name": "answer", "type": "signal" }] });
    let hear = server.upload(&hear).await;
    for _ in 0..60 {
        server.start(&hear, json!({})).await;
    }
    for run in [&oldest, &newest] {
        server.until(run, "WAITING").await;
    }
    let browser = Browser::admin(&server).await;
    let page = browser.page("/console/approvals").await;
    let place = |run: &str| page.find(run).unwrap_or_else(|| panic!("{run} is missing: {page}"));
    assert!(place(&oldest) < place(&newest), "the one that has waited longest comes first");
    let narrowed = browser.page("/console/approvals?workflow=discount%401").await;
    assert!(narrowed.contains(&newest) && !narrowed.contains(&oldest), "{narrowed}");
}
