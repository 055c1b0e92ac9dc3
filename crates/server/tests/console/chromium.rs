//! The console in a real browser.

use serde_json::{Value, json};

use super::super::entities::invoice_fixture::{begin_closing, with_invoice};
use super::support::{Role, TestServer};
use super::webdriver::{BrowserSettings, Chromium};

const DESK: &str = "/console/entities/invoice/inv-1";

/// S2.3, the support desk: a refund is pending, the button is disabled and names the pending operation, notes are possible,
/// and the open page follows what happens.
#[tokio::test]
async fn the_support_desk_shows_the_pending_operation_and_follows_it() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    let operation = begin_closing(&server, &gate).await;
    let support = server.key("acme", Role::Operator).await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    page.sign_in(&server.url, &support, DESK).await;
    let said = page.until_says("is in progress since").await;
    assert!(said.contains(&operation), "{said}");
    assert_eq!(page.run("return document.querySelector('.withheld button').disabled").await, json!(true));
    page.fill("textarea[name=text]", "the customer waits").await;
    page.click(".compose button[type=submit]").await;
    let said = page.until_says("The note was added.").await;
    assert!(said.contains("the customer waits"), "{said}");
    page.keep_picture("support-desk-pending").await;
    gate.let_through(1);
    // The page is not asked for again by anybody: it follows by itself.
    page.until_says("the entity is closed; this step applies to").await;
    assert_eq!(gate.entered(), 1);
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

/// S2.44: two clicks in a moment.
#[tokio::test]
async fn a_double_click_is_one_action_and_an_old_tab_is_told() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    let here = format!("/console/runs/{run}");
    page.sign_in(&server.url, &server.admin, &format!("{here}?tab=notes")).await;
    page.fill("textarea[name=text]", "said once").await;
    // Past the script that would hold the second click back: both forms go out, under one key.
    let twice = "const form = document.querySelector('.compose form'); const body = new URLSearchParams(new FormData(form)); \
                 const done = arguments[arguments.length - 1]; const send = () => fetch(form.action, { method: 'POST', body }); \
                 Promise.all([send(), send()]).then(answers => done(answers.map(answer => answer.ok)));";
    assert_eq!(page.run_until_done(twice).await, json!([true, true]));
    page.open(&format!("{}{here}?tab=notes", server.url)).await;
    assert_eq!(page.text().await.matches("said once").count(), 1);

    page.open(&format!("{}{here}", server.url)).await;
    // An open page follows its run; this is one that does not, as after a night asleep.
    page.run("window.old = document.querySelector(\"form[action$='/cancel']\").cloneNode(true)").await;
    let first = page.new_tab().await;
    page.open(&format!("{}{here}", server.url)).await;
    page.click("details.disclosed:nth-of-type(1) > summary").await;
    page.click("form[action$='/pause'] button[type=submit]").await;
    page.until_says("The run was asked to pause.").await;
    server.until(&run, "PAUSED").await;
    page.switch_to(&first).await;
    page.run("document.body.append(window.old); window.old.submit()").await;
    let said = page.until_says("This page is no longer up to date").await;
    assert!(said.contains("See how it stands now"), "{said}");
    assert_eq!(server.get(&format!("/api/v1/workflow-runs/{run}")).await.json()["run"]["status"], "PAUSED");
    page.keep_picture("old-tab").await;
}

#[tokio::test]
async fn everything_works_with_scripts_switched_off() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let page =
        Chromium::start(BrowserSettings { scripts: false, width: 390, height: 844, ..BrowserSettings::DESK })
            .await;
    page.open(&format!("{}/console/runs/{run}", server.url)).await;
    page.fill("input[name=api-key]", &server.admin).await;
    page.click("button[type=submit]").await;
    page.until_says("Cancel run").await;
    page.click("details:has(form[action$='/pause']) > summary").await;
    page.fill("form[action$='/pause'] textarea", "wait for the bank").await;
    page.click("form[action$='/pause'] button[type=submit]").await;
    page.until_says("The run was asked to pause.").await;
    server.until(&run, "PAUSED").await;
    page.open(&format!("{}/console/runs/{run}?tab=notes", server.url)).await;
    let said = page.until_says("wait for the bank").await;
    assert!(said.contains("Paused"), "{said}");
    page.fill(".search input", &run).await;
    page.click(".menu > summary").await;
    page.keep_picture("without-scripts").await;
}

/// A page that nobody sees asks for nothing: neither by its clock nor by its stream; and looks again once it is seen.
#[tokio::test]
async fn a_hidden_page_asks_for_nothing_until_it_is_seen_again() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    begin_closing(&server, &gate).await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    // The clock of the page is the test's, and what it asks for is counted.
    let counting = "window.isHidden = false; window.ticks = []; window.asked = 0; window.streams = []; \
        Object.defineProperty(Document.prototype, 'hidden', { get: () => window.isHidden }); \
        window.setInterval = (tick) => { window.ticks.push(tick); return 1; }; \
        const ask = window.fetch; window.fetch = (...all) => { window.asked += 1; return ask(...all); }; \
        const Stream = window.EventSource; window.EventSource = class extends Stream { constructor(...all) { super(...all); window.streams.push(this); } }; \
        window.hide = (isHidden) => { window.isHidden = isHidden; document.dispatchEvent(new Event('visibilitychange')); };";
    page.before_each_page(counting).await;
    page.sign_in(&server.url, &server.admin, DESK).await;
    page.until_says("is in progress since").await;
    let tick = "const done = arguments[arguments.length - 1]; Promise.all(window.ticks.map((tick) => tick())).then(() => done(window.asked));";
    assert_eq!(page.run_until_done(tick).await, json!(1), "a page that is seen looks again");
    page.run("window.hide(true)").await;
    assert_eq!(page.run_until_done(tick).await, json!(1), "a hidden one does not");
    page.run("window.hide(false)").await;
    assert_eq!(page.run_until_done(tick).await, json!(2));

    page.open(&format!("{}/console/runs/{run}", server.url)).await;
    page.until_says("Cancel run").await;
    let open_streams = "return window.streams.filter((it) => it.readyState !== 2).length";
    assert_eq!(page.run(open_streams).await, json!(1));
    page.run("window.hide(true)").await;
    assert_eq!(page.run(open_streams).await, json!(0), "a hidden page follows nothing");
    page.run("window.hide(false)").await;
    assert_eq!(page.run(open_streams).await, json!(1));
    gate.let_through(1);
}

/// One credential has so many streams. A page beyond them looks again by the clock.
#[tokio::test]
async fn a_page_that_gets_no_stream_follows_its_run_all_the_same() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let stream = format!("{}/api/v1/workflow-runs/{run}/events/stream", server.url);
    let mut streams = Vec::new();
    loop {
        let stream = server.http.get(&stream).bearer_auth(&server.admin).send().await.unwrap();
        if stream.status() == 429 {
            break;
        }
        streams.push(stream);
        assert!(streams.len() < 1_000, "streams have a limit");
    }
    let page = Chromium::start(BrowserSettings::DESK).await;
    page.sign_in(&server.url, &server.admin, &format!("/console/runs/{run}")).await;
    page.until_says("Cancel run").await;
    let signal = json!({ "name": "answer" });
    let sent = server.post(&format!("/api/v1/workflow-runs/{run}/signals"), &signal, &[]).await;
    assert!(sent.status < 300, "{}", sent.text());
    page.until_says("Completed").await;
    drop(streams);
}

/// The time an instant has where the viewer is, with UTC in its title.
#[tokio::test]
async fn instants_are_in_the_viewer_s_zone_with_utc_on_hover() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let run = server.start(&definition, json!({})).await;
    server.end(&run).await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    page.sign_in(&server.url, &server.admin, "/console/runs").await;
    let title = page.run("return document.querySelector('td time').title").await;
    assert!(title.as_str().unwrap().ends_with(" UTC"), "{title}");
    let is_local = "const it = document.querySelector('td time'); const at = new Date(it.dateTime); \
                    return it.textContent.includes(String(at.getMinutes()).padStart(2, '0'))";
    assert_eq!(page.run(is_local).await, Value::Bool(true));
}

/// The admin page of a shop, which passes what its element asks on to Hapax with a key of the shop's.
async fn shop(server: &TestServer, key: String) -> String {
    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::response::{Html, Response};
    use axum::routing::get;
    let (http, hapax) = (server.http.clone(), server.url.clone());
    let pass = async move |request: Request| {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        // A browser also asks for an icon.
        let Some(path) = path.strip_prefix("/hapax").map(ToOwned::to_owned) else {
            return Response::builder().status(404).body(Body::empty()).unwrap();
        };
        let mut headers = parts.headers;
        headers.remove("host");
        let asked = http.request(parts.method, format!("{hapax}{path}")).headers(headers).bearer_auth(key);
        let answer = asked.body(to_bytes(body, 65_536).await.unwrap()).send().await.unwrap();
        let mut passed = Response::builder().status(answer.status());
        *passed.headers_mut().unwrap() = answer.headers().clone();
        passed.body(Body::from(answer.bytes().await.unwrap())).unwrap()
    };
    let page = "<!doctype html><title>Shop</title><script type=module src=/hapax/console/hapax-actions.js></script>\
                <h1>Invoice 1</h1><hapax-actions type=invoice id=inv-1 label-close=\"Close the invoice\"></hapax-actions>";
    let routes = axum::Router::new()
        .route("/", get(move || async move { Html(page) }))
        .fallback(move |request| pass.clone()(request));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    url
}

/// S2.3 on a page of the user's own: two lines, and the button is disabled with the pending operation while there is one.
#[tokio::test]
async fn the_element_on_a_page_of_the_user_s_own_is_safe_against_double_clicks() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    let url = shop(&server, server.key("acme", Role::Operator).await).await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    page.open(&url).await;
    page.until_says("Close the invoice").await;
    let twice = "const button = document.querySelector('hapax-actions').shadowRoot.querySelector('button[data-step=close]'); \
                 const element = document.querySelector('hapax-actions'); button.click(); element.take('close');";
    page.run(twice).await;
    gate.arrived().await;
    let other = Chromium::start(BrowserSettings::DESK).await;
    other.open(&url).await;
    let said = other.until_says("close is in progress: op_").await;
    assert!(said.contains("another operation is already in progress"), "{said}");
    let is_disabled = "return document.querySelector('hapax-actions').shadowRoot.querySelector('button[data-step=close]').disabled";
    assert_eq!(other.run(is_disabled).await, json!(true));
    other.keep_picture("element-pending").await;
    gate.let_through(1);
    other.until_says("the entity is closed; this step applies to").await;
    page.until_says("the entity is closed; this step applies to").await;
    assert_eq!(gate.entered(), 1);
    let operations = server.get("/api/v1/entities/invoice/inv-1/operations").await.json();
    assert_eq!(operations["items"].as_array().unwrap().len(), 1, "{operations}");
}
