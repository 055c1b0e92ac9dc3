//! People who sign in at an identity provider.

use std::time::Duration;

use serde_json::{Value, json};

use super::browser::Browser;
use super::support::{Answer, IdentityProvider, Provider, Role, Setup, TestServer};
use super::webdriver::{BrowserSettings, Chromium};
use hapax_engine::clock::{Clock, ManualClock};

const RUNS: &str = "/console/runs";

async fn with_provider() -> (TestServer, IdentityProvider) {
    let provider = IdentityProvider::start().await;
    let setup = Setup { people: Some(provider.settings()), ..Setup::default() };
    (TestServer::memory_with(setup).await, provider)
}

/// Where the browser is sent when somebody presses the button.
async fn depart(browser: &Browser) -> String {
    let led = browser.get("/console/sign-in/provider?name=corp&next=%2Fconsole%2Fruns").await;
    assert_eq!(led.status, 303, "{}", led.text());
    led.header("location").unwrap().to_owned()
}

/// A sign-in of this person; answers what the browser is told at the end.
async fn try_sign_in(browser: &Browser, provider: &IdentityProvider, person: &str) -> Answer {
    let departure = depart(browser).await;
    browser.get(&provider.sign_in(&departure, person).await).await
}

async fn signed_in(server: &TestServer, provider: &IdentityProvider, person: &str) -> Browser {
    let browser = Browser::new(server);
    let answer = try_sign_in(&browser, provider, person).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    browser
}

/// Entries about refused sign-ins, once there are that many refusals.
async fn refusals(server: &TestServer, text: &str) -> String {
    let key = server.key("hapax-installation", Role::Admin).await;
    let since = std::time::Instant::now();
    loop {
        let path = "/api/v1/audit?action=sign_ins_refused";
        let told = server.send("GET", path, None, &key, &[]).await.text();
        if told.contains(text) {
            return told;
        }
        assert!(since.elapsed() < super::support::PATIENCE, "{text:?} is not in the audit log: {told}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_person_signs_in_in_a_browser_and_decides_under_their_own_name() {
    let (server, provider) = with_provider().await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    let here = format!("/console/runs/{run}?tab=notes");
    page.open(&format!("{}{here}", server.url)).await;
    page.until_says("Sign in with Corp").await;
    page.keep_picture("sign-in-with-provider").await;
    page.click("a.provider").await;
    page.until_says("Corp login").await;
    assert!(page.url().await.starts_with(&provider.url()));
    page.fill("input[name=login]", "ada").await;
    page.click("button[type=submit]").await;
    // Back on the page that was asked for.
    page.until_says("Cancel run").await;
    assert!(page.url().await.ends_with(&here), "{}", page.url().await);
    page.fill("textarea[name=text]", "the bank called").await;
    page.click(".compose button[type=submit]").await;
    let said = page.until_says("The note was added.").await;
    assert!(said.contains("ada@acme.example"), "{said}");
    let note = server.get(&format!("/api/v1/workflow-runs/{run}/notes")).await.json()["items"][0].clone();
    assert_eq!(note["actor"]["person"], "ada@acme.example", "{note}");
    assert_eq!(note["actor"]["subject"], "u-ada");
    assert_eq!(note["actor"]["issuer"], json!(provider.url()));
    assert_eq!(note["actor"]["role"], "operator");
    page.click(".who > summary").await;
    page.click("form[action='/console/sign-out'] button").await;
    page.until_says("Sign in with Corp").await;
    page.open(&format!("{}{RUNS}", server.url)).await;
    page.until_says("Sign in with Corp").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_cookies_of_a_sign_in_are_strict_and_the_one_of_the_departure_is_lax() {
    let (server, provider) = with_provider().await;
    let browser = Browser::new(&server);
    let headers = [("x-forwarded-proto", "https")];
    let led = browser.get_with("/console/sign-in/provider?name=corp&next=", &headers).await;
    let leaving = led.header("set-cookie").unwrap();
    assert!(leaving.starts_with("__Host-hapax_sign_in="), "{leaving}");
    assert!(
        leaving.contains("; Path=/; HttpOnly; SameSite=Lax; ") && leaving.ends_with("; Secure"),
        "{leaving}"
    );
    let departure = led.header("location").unwrap();
    for part in
        ["response_type=code", "code_challenge_method=S256", "nonce=", "state=", "scope=openid%20email"]
    {
        assert!(departure.contains(part), "{part}: {departure}");
    }
    let back = provider.sign_in(departure, "ada").await;
    let answer = browser.get_with(&back, &headers).await;
    let cookies: Vec<_> =
        answer.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap()).collect();
    assert!(cookies[0].starts_with("__Host-hapax_session=person_"), "{cookies:?}");
    assert!(cookies[0].contains("HttpOnly; SameSite=Strict"), "{cookies:?}");
    assert!(
        cookies[1].starts_with("__Host-hapax_sign_in=;") && cookies[1].contains("Max-Age=0"),
        "{cookies:?}"
    );
}

#[tokio::test]
async fn an_answer_of_the_provider_counts_once_and_in_the_browser_that_asked() {
    let (server, provider) = with_provider().await;
    let browser = Browser::new(&server);
    let departure = depart(&browser).await;
    let thief = browser.copy();
    let back = provider.sign_in(&departure, "ada").await;
    let elsewhere = Browser::new(&server);
    assert_eq!(elsewhere.get(&back).await.status, 401, "another browser");
    let other = Browser::new(&server);
    depart(&other).await;
    assert_eq!(other.get(&back).await.status, 401, "a browser with a sign-in of its own");
    assert_eq!(browser.get(&back).await.status, 200);
    assert_eq!(browser.get(RUNS).await.status, 200);
    // With the cookie, the state and the code of the first.
    let replayed = thief.get(&back).await;
    assert_eq!(replayed.status, 401, "{}", replayed.text());
    assert_eq!(thief.get(RUNS).await.status, 303);
    for browser in [&elsewhere, &other, &thief] {
        assert!(!browser.cookies().contains_key("hapax_session"));
    }
    refusals(&server, "it began in another browser").await;
}

#[tokio::test]
async fn nobody_is_let_in_by_a_token_that_is_not_right() {
    let (server, provider) = with_provider().await;
    for (bent, why) in [
        (json!({ "aud": "another-client" }), "audience"),
        (json!({ "aud": ["hapax", "other"] }), "several audiences without a party"),
        (json!({ "iss": "https://evil.example" }), "issuer"),
        (json!({ "nonce": "another" }), "nonce"),
        (json!({ "nonce": null }), "no nonce"),
        (json!({ "exp": 1_600_000_000 }), "expired"),
        (json!({ "sub": "" }), "subject"),
    ] {
        provider.bend(bent);
        let browser = Browser::new(&server);
        let answer = try_sign_in(&browser, &provider, "ada").await;
        assert_eq!(answer.status, 401, "{why}: {}", answer.text());
        assert!(!browser.cookies().contains_key("hapax_session"), "{why}");
    }
    provider.bend(json!({}));
    let refused = try_sign_in(&Browser::new(&server), &provider, "nobody").await;
    assert!(refused.status == 401 && refused.text().contains("access_denied"), "{}", refused.text());
    signed_in(&server, &provider, "ada").await;
}

#[tokio::test]
async fn a_person_without_a_role_is_told_so_and_the_audit_log_names_them() {
    let (server, provider) = with_provider().await;
    let browser = Browser::new(&server);
    let refused = try_sign_in(&browser, &provider, "eve").await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("nobody gave you a role"), "{}", refused.text());
    let told = refusals(&server, "eve@acme.example (u-eve at corp) has no role").await;
    assert!(told.contains("127.0.0.1: "), "{told}");
    // Anybody can be refused often, and the audit log does not grow with it.
    for _ in 0..30 {
        browser.post("/console/sign-in", &[("api-key", "hpx_nothing")], &[]).await;
        try_sign_in(&browser, &provider, "eve").await;
    }
    let key = server.key("hapax-installation", Role::Admin).await;
    let log = server.send("GET", "/api/v1/audit?action=sign_ins_refused", None, &key, &[]).await.json();
    assert_eq!(log["items"].as_array().unwrap().len(), 1, "{log}");
}

#[tokio::test]
async fn a_provider_that_changes_its_keys_locks_nobody_out() {
    let (server, provider) = with_provider().await;
    signed_in(&server, &provider, "ada").await;
    provider.rotate("key-2");
    signed_in(&server, &provider, "ada").await;
    assert_eq!(provider.key_reads(), 2);
    // Whoever invents keys does not make the server ask each time.
    for number in 0..5 {
        let token = provider.access_token_with("ada", &json!({ "kid": format!("invented-{number}") }));
        assert_eq!(server.send("GET", "/api/v1/doubts", None, &token, &[]).await.status, 401);
    }
    assert_eq!(provider.key_reads(), 2);
}

#[tokio::test]
async fn sessions_of_a_person_are_listed_ended_and_bounded_in_time() {
    let provider = IdentityProvider::start().await;
    let clock = std::sync::Arc::new(ManualClock::default());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    clock.advance(now.saturating_sub(Duration::from_millis(clock.now().as_millis().unsigned_abs())));
    let setup = Setup { people: Some(provider.settings()), clock: clock.clone(), ..Setup::default() };
    let server = TestServer::memory_with(setup).await;
    let (here, there) =
        (signed_in(&server, &provider, "ada").await, signed_in(&server, &provider, "ada").await);
    let grace = signed_in(&server, &provider, "grace").await;
    let page = here.page("/console/sessions").await;
    assert_eq!(
        page.matches("action=\"/console/sessions/end\"").count(),
        2,
        "only those of the person: {page}"
    );
    let form = here.form("/console/sessions", "/console/sessions/end-all").await;
    here.submit(&form).await;
    assert_eq!((here.get(RUNS).await.status, there.get(RUNS).await.status), (303, 303));
    assert_eq!(grace.get(RUNS).await.status, 200);
    // A node remembers a session for a moment, so this is one that nobody looked for yet.
    let idle = signed_in(&server, &provider, "grace").await;
    clock.advance(Duration::from_secs(61 * 60));
    assert_eq!(idle.get(RUNS).await.status, 303, "an hour without use");
    let told = server.get("/api/v1/audit?name=ada%40acme.example&limit=200").await.text();
    assert!(
        told.contains("signed in to the console") && told.contains("signed out of the console everywhere"),
        "{told}"
    );
}

#[tokio::test]
async fn a_person_sees_and_does_what_their_group_allows_and_nobody_decides_for_them() {
    let (server, provider) = with_provider().await;
    let ada = signed_in(&server, &provider, "ada").await;
    assert_eq!(ada.get("/console/admin/credentials").await.status, 403);
    let token = provider.access_token("ada", &json!({}));
    let run = server.start(&server.echo().await, json!({})).await;
    let note = json!({ "text": "seen" }).to_string();
    let path = format!("/api/v1/workflow-runs/{run}/notes");
    assert_eq!(server.send("POST", &path, Some(note), &token, &[]).await.status, 201);
    let notes = server.get(&path).await.json();
    assert_eq!(
        notes["items"][0]["actor"]["subject"], "u-ada",
        "one person, in the console and the API: {notes}"
    );
    let subscription = json!({ "name": "books", "url": "http://127.0.0.1:9/", "events": ["run.failed"] });
    let subscription = server.post("/api/v1/webhook-subscriptions", &subscription, &[]).await.json();
    let id = &subscription["subscription"]["id"];
    let body =
        json!({ "subscriptionId": id, "status": "dead", "limit": 1, "reason": "again", "by": "the boss" });
    let refused = server
        .send("POST", "/api/v1/webhook-deliveries/redeliver", Some(body.to_string()), &token, &[])
        .await;
    assert_eq!((refused.status, &refused.json()["path"]), (400, &Value::from("/by")), "{}", refused.text());
}

/// A doubt ruled by two people, each signed in at the identity provider: one proposes, the other sees who and what, and confirms.
#[tokio::test]
async fn a_doubt_is_ruled_by_two_people() {
    let (server, _provider) = with_provider().await;
    let bank = Provider::start().await;
    let document = json!({
        "name": "wire", "version": 1,
        "steps": [{
            "name": "send", "type": "http", "method": "POST", "url": bank.url("/cut"), "effect": "claimed", "nonIdempotent": true,
        }],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server
        .until_shown("/api/v1/doubts", |page| page["items"].as_array().is_some_and(|items| !items.is_empty()))
        .await;
    let here = format!("/console/doubts/{run}/send");
    let enter = async |person: &str| {
        let page = Chromium::start(BrowserSettings::DESK).await;
        page.open(&format!("{}{here}", server.url)).await;
        page.click("a.provider").await;
        page.until_says("Corp login").await;
        page.fill("input[name=login]", person).await;
        page.click("button[type=submit]").await;
        page.until_says("Did send happen?").await;
        page
    };
    let ada = enter("ada").await;
    ada.click("details:has(input[value=abandon]) > summary").await;
    ada.fill("details[open] textarea[name=reason]", "the bank does not know").await;
    ada.click("details[open] button[type=submit]").await;
    let said = ada.until_says("waiting for a second person").await;
    assert!(said.contains("You proposed this"), "she cannot confirm it: {said}");
    assert_eq!(server.get("/api/v1/doubts").await.json()["items"].as_array().unwrap().len(), 1);
    let grace = enter("grace").await;
    let said = grace.until_says("waiting for a second person").await;
    assert!(said.contains("ada@acme.example") && said.contains("the bank does not know"), "{said}");
    grace.keep_picture("doubt-for-a-second-person").await;
    grace.click("#proposals details > summary").await;
    grace.until_says("You are the second person. The step counts as failed").await;
    grace.fill("#proposals textarea[name=reason]", "nor does it know when I call").await;
    grace.click("#proposals button[type=submit]").await;
    grace.until_says("Two people decided about send").await;
    server.until(&run, "FAILED").await;
    let entry = server.get("/api/v1/audit?action=resolved").await.json()["items"][0].clone();
    assert_eq!(
        (&entry["actor"]["subject"], &entry["secondedBy"]["subject"]),
        (&json!("u-grace"), &json!("u-ada")),
        "{entry}"
    );
    for page in [&ada, &grace] {
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}
