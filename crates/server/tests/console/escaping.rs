//! Everything that others stored comes out as text.

use serde_json::json;

use super::browser::{Browser, forms};
use super::support::TestServer;

const EVIL: &str = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>";

/// Nothing of it became markup.
fn check(page: &str, path: &str) {
    for bad in ["<img", "<script>alert", "onerror=alert(1)>\"'>"] {
        assert!(!page.contains(bad), "{path}: {bad} in {page}");
    }
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, 1, "{path}: its own script alone");
    assert!(!page.contains("style=\"") && !page.contains(" onclick"), "{path}: nothing inline");
}

#[tokio::test]
async fn what_users_stored_never_becomes_markup() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "echo", "version": 1, "description": EVIL,
        "steps": [
            { "name": "say", "type": "task", "task": "echo", "input": { "said": "{{ input }}" } },
            { "name": "break", "type": "task", "task": "fail" },
        ],
    });
    let definition = server.upload(&document).await;
    let asked = json!({ "definitionId": definition, "input": { "text": EVIL, EVIL: 1 }, "subject": "s<b>", "idempotencyKey": "k<script>\"" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.end(&run).await;
    let note =
        server.post(&format!("/api/v1/workflow-runs/{run}/notes"), &json!({ "text": EVIL }), &[]).await;
    assert_eq!(note.status, 201);
    let workflow = json!({
        "name": "flow", "module": "billing", "entity": "thing", "description": EVIL,
        "status_types": ["open", "shut"], "initial": "open",
        "steps": [{ "step_id": 1, "step_key": "shut", "status": "open", "successful_state": "shut" }],
    });
    assert_eq!(server.post("/api/v1/entity-workflows", &workflow, &[]).await.status, 201);
    let entity = json!({ "id": "<b>\"x", "status": "open", "data": { EVIL: EVIL } });
    assert_eq!(server.post("/api/v1/entities/thing", &entity, &[]).await.status, 201);
    let path = "/api/v1/entities/thing/%3Cb%3E%22x/notes";
    assert_eq!(server.post(path, &json!({ "text": EVIL, "by": "<i>Eve" }), &[]).await.status, 201);

    let browser = Browser::admin(&server).await;
    let of_run = format!("/console/runs/{run}");
    for path in [
        "/console/runs",
        &of_run,
        &format!("{of_run}?tab=effects"),
        &format!("{of_run}?tab=history"),
        &format!("{of_run}?tab=notes"),
        &format!("{of_run}/retry"),
        "/console/search?q=k%3Cscript%3E%22",
        "/console/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/console/entities",
        "/console/entities/thing",
        "/console/entities/thing/%3Cb%3E%22x",
        "/console/evidence",
        "/console/runs?workflow=a&status=COMPLETED",
    ] {
        check(&browser.page(path).await, path);
    }
    let desk = browser.page("/console/entities/thing/%3Cb%3E%22x").await;
    assert!(desk.contains("&lt;img src=x onerror=alert(1)&gt;"), "it is shown, as text: {desk}");
    assert!(desk.contains("&lt;i&gt;Eve"));
}

#[tokio::test]
async fn what_others_put_into_addresses_forms_and_cookies_is_text_too() {
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    for path in [
        "/console/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/console/doubts/x/%3Cimg%3E",
        "/console/entities/%3Cimg%3E/1",
        "/console/runs?status=%3Cimg%3E",
        "/console/runs?cursor=%3Cimg%3E",
    ] {
        let refused = browser.get(path).await;
        assert!((400..500).contains(&refused.status), "{path} {}", refused.status);
        check(&refused.text(), path);
    }
    let sign_in = Browser::new(&server).page("/console/sign-in?next=%22%3E%3Cimg%20src%3Dx%3E").await;
    check(&sign_in, "sign-in");
    assert_eq!(forms(&sign_in)[0].field("next"), "/console");
    let flashed = browser.get_with("/console/runs", &[("cookie", "hapax_flash=%3Cimg%3E")]).await;
    check(&flashed.text(), "flash");
}
