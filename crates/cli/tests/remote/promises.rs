//! Promises from the command line.

use crate::remote::support::TestServer;

const PAYS: &str = r#"{"name":"pays","version":1,"steps":[{"name":"paid","type":"promise","timeout":"1d","key":"stripe:{{ input.charge }}"}]}"#;

/// S4.29 to S4.31: made, found by key, settled once, seen by the run that waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_promise_is_made_found_and_settled() {
    let server = TestServer::start().await;
    let made =
        server.hapax(&["promises", "create", "--id", "order/7", "--key", "stripe:ch_7", "--json"]).await.ok();
    assert_eq!((&made.json()["id"], &made.json()["status"]), (&"order/7".into(), &"PENDING".into()));
    let taken = server.hapax(&["promises", "create", "--key", "stripe:ch_7"]).await.exits(6);
    assert!(taken.err.contains("promise_key_conflict") && taken.err.contains("order/7"), "{}", taken.err);
    let show = ["promises", "show", "key:stripe:ch_7", "--json"];
    assert_eq!(server.hapax(&show).await.ok().json()["status"], "PENDING");
    let resolve = ["promises", "resolve", "key:stripe:ch_7", "--value", r#"{"cents":5}"#];
    assert_eq!(server.hapax(&resolve).await.ok().out, "order/7 is now RESOLVED\n");
    assert_eq!(server.hapax(&resolve).await.ok().out, "order/7 was already RESOLVED\n");
    server.hapax(&["promises", "reject", "id:order/7", "--message", "no"]).await.exits(6);
    let shown = server.hapax(&["promises", "show", "id:order/7"]).await.ok().out;
    assert!(shown.contains("RESOLVED") && shown.contains(r#"{"cents":5}"#), "{shown}");
    let listed = server.hapax(&["promises", "list", "--status", "resolved", "--stand-alone"]).await.ok().out;
    assert!(listed.contains("order/7"), "{listed}");
    server.hapax(&["promises", "show", "id:none"]).await.exits(5);
    server.hapax(&["promises", "show", "order/7"]).await.exits(2);
    let key = server.hapax(&["keys", "show", "promise", "stripe:ch_7", "--json"]).await.ok().json();
    assert_eq!(key["holder"]["id"], "order/7");
}

/// G4.1: an early settlement is kept, listed, and given to the run that creates its promise.
#[tokio::test(flavor = "multi_thread")]
async fn an_early_settlement_is_seen_until_its_run_comes() {
    let server = TestServer::start().await;
    let kept = server.hapax(&["promises", "resolve", "key:stripe:ch_1", "--value", "7"]).await.ok().out;
    assert!(kept.contains("names no promise yet"), "{kept}");
    let early = server.hapax(&["promises", "early"]).await.ok().out;
    assert!(early.contains("stripe:ch_1") && early.contains("RESOLVED"), "{early}");
    let run = server.begin(PAYS, r#"{"charge":"ch_1"}"#).await;
    server.hapax(&["runs", "result", &run, "--wait", "20s"]).await.ok();
    assert_eq!(server.hapax(&["promises", "early"]).await.ok().out, "no settlement waits for its promise\n");
    let of_run = server.hapax(&["promises", "list", "--run", &run, "--json"]).await.ok().json();
    assert_eq!((&of_run["id"], &of_run["value"]), (&format!("{run}:paid").into(), &7.into()));
}

/// A token is an address that is shown once and works as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_an_address_that_works() {
    let server = TestServer::start().await;
    server.hapax(&["promises", "create", "--id", "p"]).await.ok();
    let issued = server.hapax(&["promises", "token", "id:p", "--expires-in", "60s", "--json"]).await;
    let url = issued.ok().json()["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("{}/settle/hps_", server.url)), "{url}");
    let waiting = server.hapax(&["promises", "show", "id:p", "--wait", "1s"]).await.exits(7);
    assert!(waiting.out.contains("PENDING"), "{}", waiting.out);
    let told = server.hapax(&["promises", "token", "id:p"]).await.ok();
    assert!(told.err.contains("shown only once") && told.out.contains("/settle/hps_"), "{told:?}");
}
