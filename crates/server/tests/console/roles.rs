//! What each role sees: no button that the server would refuse, and a reason where one is withheld.

use serde_json::json;

use super::super::entities::invoice_fixture::{INVOICE, begin_closing, with_invoice};
use super::browser::{Browser, forms};
use super::support::{Role, TestServer};

const DESK: &str = "/console/entities/invoice/inv-1";

/// S2.1, S2.2, S2.3: while an operation is pending, the button is disabled and the pending operation is shown; notes are possible.
#[tokio::test]
async fn while_an_operation_is_pending_the_button_is_disabled_and_its_id_is_shown() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    let support = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let before = support.form(DESK, &format!("{DESK}/steps/close")).await;
    let operation = begin_closing(&server, &gate).await;
    let page = support.page(DESK).await;
    assert!(
        page.contains("<button class=\"plain\" type=\"button\" disabled>close → closed</button>"),
        "{page}"
    );
    assert!(
        page.contains(&format!("href=\"/console/operations/{operation}\"")),
        "the pending operation is linked: {page}"
    );
    assert!(
        !forms(&page).iter().any(|form| form.action.contains("/steps/")),
        "no button that would be refused"
    );
    // Whoever has the old page open is told, and nothing begins.
    let late = support.submit(&before).await;
    assert_eq!(late.status, 409, "{}", late.text());
    let note = support.form(DESK, &format!("{DESK}/notes")).await.with("text", "the customer waits");
    assert_eq!(support.submit(&note).await.status, 303);
    assert!(support.page(DESK).await.contains("the customer waits"));
    gate.let_through(1);
    super::super::entities::invoice_fixture::until_ended(&server, &operation).await;
    assert_eq!(gate.entered(), 1);
    assert!(support.page(DESK).await.contains("<span class=\"status-now\">closed</span>"));
}

#[tokio::test]
async fn a_viewer_sees_everything_and_no_form_that_changes_it() {
    let (server, _gate) = with_invoice(TestServer::memory().await).await;
    let definition = server.echo().await;
    let run = server.start(&definition, json!({ "order": 1 })).await;
    server.end(&run).await;
    let viewer = Browser::signed_in(&server, &server.key("acme", Role::Viewer).await).await;
    let run_page = format!("/console/runs/{run}");
    for path in [
        DESK,
        &run_page,
        &format!("{run_page}?tab=notes"),
        "/console/doubts",
        "/console/entities",
        "/console/evidence",
    ] {
        let page = viewer.page(path).await;
        let own = ["/console/theme", "/console/sign-out"];
        let found: Vec<_> =
            forms(&page).into_iter().filter(|form| !own.contains(&form.action.as_str())).collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
    assert!(viewer.page(DESK).await.contains("the role viewer may look, and not act"));
    // What a page does not show, the server refuses all the same.
    let csrf = forms(&viewer.page(DESK).await)[0].field("csrf").to_owned();
    let refused = viewer.post(&format!("{DESK}/steps/close"), &[("csrf", &csrf), ("key", "k")], &[]).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("operator"), "{}", refused.text());
    assert_eq!(server.get(INVOICE).await.json()["entity"]["status"], "approved");
}

/// S2.46: a new key needs a manager's override, which the console shows to managers alone.
#[tokio::test]
async fn only_a_manager_sees_the_override_and_its_reason_is_in_the_history() {
    let server = TestServer::memory().await;
    super::super::entities::support_desk::with_failed_payout(&server).await;
    let desk = "/console/entities/payout/po-1";
    let action = format!("{desk}/steps/send/override");
    let support = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let page = support.page(desk).await;
    assert!(page.contains("disabled>send → sent</button>"), "{page}");
    assert!(!page.contains(&action));
    let csrf = forms(&page)[0].field("csrf").to_owned();
    let forged = [("csrf", csrf.as_str()), ("reason", "because"), ("key", "k1")];
    assert_eq!(support.post(&action, &forged, &[]).await.status, 403);
    let manager = Browser::signed_in(&server, &server.key("acme", Role::Manager).await).await;
    let form = manager.form(desk, &action).await.with("reason", "the bank says it never arrived");
    let done = manager.submit(&form).await;
    assert_eq!(done.status, 303, "{}", done.text());
    let shown = server.get("/api/v1/entities/payout/po-1").await.json();
    assert_eq!(shown["entity"]["status"], "sent");
    let operations = manager.page(desk).await;
    let operation =
        operations.split("href=\"/console/operations/").nth(1).unwrap().split('"').next().unwrap();
    let history = manager.page(&format!("/console/operations/{operation}")).await;
    assert!(
        history.contains("the bank says it never arrived") && history.contains("Overridden"),
        "{history}"
    );
}
