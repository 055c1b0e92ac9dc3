//! Administration in the console: credentials, roles, the audit log.

use serde_json::json;

use super::browser::{Browser, forms};
use super::support::{Role, TestServer};

const CREDENTIALS: &str = "/console/admin/credentials";

#[tokio::test]
async fn a_credential_is_shown_its_key_once_and_counts_until_it_is_revoked() {
    let server = TestServer::memory().await;
    let admin = Browser::admin(&server).await;
    let form = admin.form(CREDENTIALS, CREDENTIALS).await;
    let made =
        admin.submit(&form.with("name", "desk <b>").with("role", "viewer").with("expires", "30d")).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let secret = made.text().split("readonly value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(secret.starts_with("hpx_"), "{}", made.text());
    let desk = Browser::signed_in(&server, &secret).await;
    desk.page("/console/runs").await;
    assert_eq!(desk.get(CREDENTIALS).await.status, 403, "a viewer may not see credentials");
    let list = admin.page(CREDENTIALS).await;
    assert!(!list.contains(&secret) && list.contains("desk &lt;b&gt;"), "{list}");
    let id = secret.split('_').nth(1).unwrap();
    let revoke =
        forms(&list).into_iter().find(|form| form.action == format!("{CREDENTIALS}/cred_{id}/revoke"));
    let revoke = revoke.unwrap().with("reason", "left the company");
    assert_eq!(admin.submit(&revoke).await.status, 303);
    let audit = admin.page("/console/admin/audit?action=credential_changed").await;
    assert!(audit.contains("revoked") && audit.contains("left the company"), "{audit}");
    let exported = admin.get("/console/admin/audit/export?format=csv&action=credential_changed").await;
    assert_eq!(exported.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(exported.text().contains("\"left the company\""), "{}", exported.text());
}

#[tokio::test]
async fn the_table_of_roles_says_what_the_server_allows() {
    let server = TestServer::memory().await;
    let viewer = Browser::signed_in(&server, &server.key("acme", Role::Viewer).await).await;
    let page = viewer.page("/console/admin/roles").await;
    let row = |what: &str| {
        let row = page.split(what).nth(1).unwrap().split("</tr>").next().unwrap().to_owned();
        row.split("<td").skip(1).map(|cell| cell.contains(">yes<")).collect::<Vec<_>>()
    };
    // viewer, worker, operator, manager, admin
    assert_eq!(row("Start runs"), [false, false, true, true, true]);
    assert_eq!(row("Release keys"), [false, false, false, true, true]);
    assert_eq!(row("Create, rotate and revoke credentials"), [false, false, false, false, true]);
}

/// What nobody with the role may do is on no page.
#[tokio::test]
async fn a_viewer_sees_the_pages_of_records_and_set_up_without_a_form_that_changes_anything() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let run = server.start(&definition, json!({ "order": 1 })).await;
    server.end(&run).await;
    let viewer = Browser::signed_in(&server, &server.key("acme", Role::Viewer).await).await;
    let own = ["/console/theme", "/console/sign-out"];
    for path in [
        "/console/webhooks",
        "/console/webhooks/early",
        "/console/webhooks/sources",
        "/console/webhooks/deliveries",
        "/console/webhooks/subscriptions",
        "/console/keys?key=x",
        "/console/keys/run/x",
        "/console/approvals",
        "/console/ledger",
        "/console/workflows",
        "/console/workflows/entities",
        &format!("/console/workflows/definitions/{definition}"),
        &format!("/console/workflows/definitions/{definition}/start"),
        "/console/admin",
        "/console/admin/audit",
        "/console/admin/roles",
    ] {
        let found: Vec<_> = forms(&viewer.page(path).await)
            .into_iter()
            .filter(|form| !own.contains(&form.action.as_str()))
            .collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}
