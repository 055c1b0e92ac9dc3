//! Forms: once however often they are sent, never from another site, and never on what has changed since.

use serde_json::json;

use super::browser::Browser;
use super::support::TestServer;

/// A run that waits for a signal, and the page of it.
async fn with_run(server: &TestServer) -> (String, String) {
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let page = format!("/console/runs/{run}");
    (run, page)
}

#[tokio::test]
async fn a_form_without_the_token_of_its_session_or_from_another_site_changes_nothing() {
    let server = TestServer::memory().await;
    let (run, page) = with_run(&server).await;
    let browser = Browser::admin(&server).await;
    let form = browser.form(&page, &format!("{page}/cancel")).await;
    let stranger = Browser::admin(&server).await;
    let theirs = stranger.form(&page, &format!("{page}/cancel")).await;
    for forged in [
        form.clone().with("csrf", ""),
        form.clone().with("csrf", "x"),
        form.clone().with("csrf", theirs.field("csrf")),
    ] {
        let refused = browser.submit(&forged).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
    }
    let fields: Vec<_> = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for header in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = browser.post(&form.action, &fields, &[header]).await;
        assert_eq!(refused.status, 403, "{header:?}");
    }
    assert_eq!(server.get(&format!("/api/v1/workflow-runs/{run}")).await.json()["run"]["status"], "WAITING");
    assert_eq!(browser.submit(&form).await.status, 303);
    server.until(&run, "CANCELLED").await;
}

/// S2.44: a user's double click.
#[tokio::test]
async fn a_form_that_is_sent_twice_is_one_action_with_two_equal_answers() {
    let server = TestServer::memory().await;
    let (run, page) = with_run(&server).await;
    let browser = Browser::admin(&server).await;
    let form = browser
        .form(&format!("{page}?tab=notes"), &format!("{page}/notes"))
        .await
        .with("text", "the lamp was broken");
    let (first, second) = tokio::join!(browser.submit(&form), browser.submit(&form));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text(), second.text());
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!(first.header("set-cookie"), second.header("set-cookie"));
    let notes = server.get(&format!("/api/v1/workflow-runs/{run}/notes")).await.text();
    assert_eq!(notes.matches("the lamp was broken").count(), 1, "{notes}");
    let other = browser.submit(&form.with("text", "something else")).await;
    assert_eq!(other.status, 422);
    assert!(other.text().contains("This form was sent before, with other values"), "{}", other.text());
    let again = browser.form(&format!("{page}?tab=notes"), &format!("{page}/notes")).await;
    assert_eq!(browser.submit(&again.with("text", "something else")).await.status, 303);
}

#[tokio::test]
async fn whoever_decides_on_an_old_page_is_told_so_and_changes_nothing() {
    let server = TestServer::memory().await;
    let (run, page) = with_run(&server).await;
    let (one, other) = (Browser::admin(&server).await, Browser::admin(&server).await);
    let old = one.form(&page, &format!("{page}/cancel")).await;
    let pause = other.form(&page, &format!("{page}/pause")).await;
    assert_eq!(other.submit(&pause).await.status, 303);
    server.until(&run, "PAUSED").await;
    let told = one.submit(&old).await;
    assert_eq!(told.status, 409, "{}", told.text());
    assert!(told.text().contains("This page is no longer up to date"), "{}", told.text());
    assert!(told.text().contains(&format!("href=\"{page}\"")), "a way to the page as it is now");
    let shown = server.get(&format!("/api/v1/workflow-runs/{run}")).await.json();
    assert_eq!(shown["run"]["status"], "PAUSED");
}

#[tokio::test]
async fn what_was_done_is_said_once_on_the_page_that_follows() {
    let server = TestServer::memory().await;
    let (_, page) = with_run(&server).await;
    let browser = Browser::admin(&server).await;
    let form = browser.form(&page, &format!("{page}/signal")).await;
    let led =
        browser.submit(&form.with("name", "answer").with("value", "{\"yes\": 18446744073709551615}")).await;
    assert_eq!((led.status, led.header("location")), (303, Some(page.as_str())), "{}", led.text());
    assert!(browser.page(&page).await.contains("The signal was sent."));
    let after = browser.page(&page).await;
    assert!(!after.contains("The signal was sent."));
    assert!(after.contains("18446744073709551615"), "numbers are shown as they were sent");
}

#[tokio::test]
async fn a_value_that_is_no_json_is_refused_with_what_to_do() {
    let server = TestServer::memory().await;
    let (_, page) = with_run(&server).await;
    let browser = Browser::admin(&server).await;
    let form = browser.form(&page, &format!("{page}/signal")).await;
    let refused = browser.submit(&form.with("name", "answer").with("value", "yes")).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("must be one JSON value"), "{}", refused.text());
}
