//! Who gets in, for how long, and how they get out again.

use std::time::Duration;

use serde_json::json;

use super::browser::Browser;
use super::support::{Role, TestServer};

#[tokio::test]
async fn a_browser_at_the_root_is_led_to_the_console_and_a_program_gets_the_index() {
    let server = TestServer::memory().await;
    let browser = Browser::new(&server);
    let led = browser.get("/").await;
    assert_eq!((led.status, led.header("location")), (303, Some("/console")));
    let index = server.send("GET", "/", None, "", &[]).await;
    assert_eq!(index.json()["docs"], "/docs");
}

#[tokio::test]
async fn nobody_sees_a_page_without_a_session_and_is_led_back_after_signing_in() {
    let server = TestServer::memory().await;
    let browser = Browser::new(&server);
    for path in
        ["/console/runs", "/console/evidence", "/console/doubts", "/console/entities", "/console/sessions"]
    {
        let led = browser.get(path).await;
        assert_eq!(led.status, 303, "{path}");
        assert!(led.header("location").unwrap().starts_with("/console/sign-in?next="), "{path}");
        assert!(!led.text().contains("acme"));
    }
    let refused = browser.post("/console/sign-in", &[("api-key", "hpx_nothing"), ("next", "")], &[]).await;
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("No credential has this key"), "{}", refused.text());
    assert!(browser.cookies().is_empty());
    let fields = [("api-key", server.admin.as_str()), ("next", "/console/runs?status=FAILED")];
    let led = browser.post("/console/sign-in", &fields, &[]).await;
    assert_eq!((led.status, led.header("location")), (303, Some("/console/runs?status=FAILED")));
    let cookie = led.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&server.admin), "the key itself is not in the cookie");
    assert!(browser.page("/console/runs").await.contains("acme"));
}

#[tokio::test]
async fn a_cookie_over_https_is_for_this_host_alone() {
    let server = TestServer::memory().await;
    let browser = Browser::new(&server);
    let fields = [("api-key", server.admin.as_str())];
    let led = browser.post("/console/sign-in", &fields, &[("x-forwarded-proto", "https")]).await;
    let cookie = led.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-hapax_session=") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(cookie.contains("; Path=/;") && !cookie.contains("Domain"), "{cookie}");
}

#[tokio::test]
async fn a_worker_s_key_opens_no_page() {
    let server = TestServer::memory().await;
    let key = server.key("acme", Role::Worker).await;
    let browser = Browser::new(&server);
    let refused = browser.post("/console/sign-in", &[("api-key", &key)], &[]).await;
    assert_eq!(refused.status, 403);
    assert!(browser.cookies().is_empty());
}

#[tokio::test]
async fn signing_out_ends_the_session_for_whoever_copied_its_cookie() {
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    let thief = browser.copy();
    assert_eq!(thief.get("/console/runs").await.status, 200);
    let form = browser.form("/console/runs", "/console/sign-out").await;
    assert_eq!(browser.submit(&form).await.status, 303);
    assert!(browser.cookies().is_empty());
    assert_eq!(thief.get("/console/runs").await.status, 303);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one_or_all_at_once() {
    let server = TestServer::memory().await;
    let (here, there) = (Browser::admin(&server).await, Browser::admin(&server).await);
    let page = here.page("/console/sessions").await;
    assert_eq!(page.matches("action=\"/console/sessions/end\"").count(), 2, "{page}");
    assert_eq!(page.matches("this one").count(), 1);
    let own = page.split("this one").next().unwrap().matches("action=\"/console/sessions/end\"").count();
    let mut ends = super::browser::forms(&page);
    ends.retain(|form| form.action == "/console/sessions/end");
    assert_eq!(here.submit(&ends[1 - own]).await.status, 303);
    assert_eq!(there.get("/console/runs").await.status, 303, "the other one ended");
    let third = Browser::admin(&server).await;
    let form = here.form("/console/sessions", "/console/sessions/end-all").await;
    here.submit(&form).await;
    for browser in [&here, &third] {
        assert_eq!(browser.get("/console/runs").await.status, 303);
    }
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let told = audit.to_string();
    for change in
        ["signed in to the console", "ended a session of the console", "signed out of the console everywhere"]
    {
        assert!(told.contains(change), "{change}: {told}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_credential_and_with_a_rotated_key() {
    let server = TestServer::memory().await;
    for (action, body) in [("revoke", json!({})), ("rotate", json!({ "overlap": "0s" }))] {
        let key = server.key("acme", Role::Operator).await;
        let browser = Browser::signed_in(&server, &key).await;
        assert_eq!(browser.get("/console/runs").await.status, 200);
        let id = format!("cred_{}", key.split('_').nth(1).unwrap());
        let done = server.post(&format!("/api/v1/credentials/{id}/{action}"), &body, &[]).await;
        assert_eq!(done.status, 200, "{}", done.text());
        // Remembered for a moment, as credentials are on every node.
        let since = std::time::Instant::now();
        while browser.get("/console/runs").await.status == 200 {
            assert!(since.elapsed() < Duration::from_secs(5), "the session outlives its key ({action})");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_session_ends_after_an_hour_without_use_and_after_half_a_day_in_any_case() {
    let (server, clock) = TestServer::timed().await;
    let idle = Browser::admin(&server).await;
    clock.advance(Duration::from_secs(61 * 60));
    assert_eq!(idle.get("/console/runs").await.status, 303);
    let busy = Browser::admin(&server).await;
    let mut hours = 0;
    while busy.get("/console/sessions").await.status == 200 {
        clock.advance(Duration::from_secs(50 * 60));
        // What a node remembers of a session is forgotten when any session of it ends.
        let other = Browser::admin(&server).await;
        let form = other.form("/console/runs", "/console/sign-out").await;
        other.submit(&form).await;
        hours += 1;
        assert!(hours < 20, "a session lasts for ever");
    }
    assert_eq!(hours, 15, "12 hours in steps of 50 minutes");
}

#[tokio::test]
async fn every_node_knows_a_session_and_its_end() {
    let server = TestServer::postgres().await;
    let node = server.another_node().await;
    let browser = Browser::admin(&server).await;
    let elsewhere = Browser::at(&node, &browser);
    assert_eq!(elsewhere.get("/console/runs").await.status, 200);
    let form = browser.form("/console/runs", "/console/sign-out").await;
    browser.submit(&form).await;
    let since = std::time::Instant::now();
    while elsewhere.get("/console/runs").await.status == 200 {
        assert!(since.elapsed() < Duration::from_secs(5), "the session lives on at another node");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let server = TestServer::memory().await;
    let key = hapax_server::credentials::key::ApiKey::parse(&server.admin).unwrap();
    let link = server.server.console_link(&key).unwrap().unwrap();
    let browser = Browser::new(&server);
    // A program that looks at links ahead does not use it up.
    assert_eq!(browser.get(&link).await.status, 200);
    let form = browser.form(&link, "/console/sign-in/link").await;
    assert_eq!(browser.submit(&form).await.status, 303);
    assert_eq!(browser.get("/console/runs").await.status, 200);
    let late = Browser::new(&server);
    assert_eq!(late.submit(&form).await.status, 401);
    assert!(late.cookies().is_empty());
}
