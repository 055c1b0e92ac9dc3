//! Messages to a subscription, and the effect of its responses.

use std::time::Duration;

use hapax_engine::clock::{Clock, ManualClock};
use hapax_engine::model::{OutboxMessage, OutboxState, OutboxStatus, WorkspaceId};
use hapax_engine::{Ctx, Engine, Failure};
use hapax_outgoing::Rules;
use serde_json::{Value, json};

use super::support::{PATIENCE, Received, Receiver, Setup, TestServer};
use super::{DELIVERIES, SUBSCRIPTIONS};

/// Makes a subscription; answers its id and its secret.
pub async fn subscribe(server: &TestServer, url: &str, events: &[&str]) -> (String, String) {
    let asked = json!({ "name": format!("to {url} {}", events.join(" ")), "url": url, "events": events });
    let made = server.post(SUBSCRIPTIONS, &asked, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&made["subscription"]["id"]), text(&made["secret"]))
}

/// Ends a run that completes; answers its id.
pub async fn end_a_run(server: &TestServer) -> String {
    let echo = server.echo().await;
    let run = server.start(&echo, json!({ "n": 1 })).await;
    assert_eq!(server.end(&run).await["run"]["status"], "COMPLETED");
    run
}

pub fn acme(server: &TestServer) -> Engine {
    server.engine.workspace(WorkspaceId::new("acme").unwrap())
}

/// Looks until the only after-effect is as the test wants it.
pub async fn until_post(
    server: &TestServer,
    what: &str,
    is_so: impl Fn(&OutboxMessage) -> bool,
) -> OutboxMessage {
    let since = std::time::Instant::now();
    loop {
        let posts = acme(server).list_after_effects(None, None, 10).await.unwrap();
        if let [post] = &posts[..]
            && is_so(post)
        {
            return post.clone();
        }
        assert!(since.elapsed() < PATIENCE, "{what}: {posts:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn is(status: OutboxStatus) -> impl Fn(&OutboxMessage) -> bool {
    move |post| post.state.status() == status
}

/// Moves on to the next attempt, and waits for its end.
async fn attempt_again(server: &TestServer, clock: &ManualClock, before: &OutboxMessage) -> OutboxMessage {
    let OutboxState::Due { at } = before.state else { panic!("{before:?}") };
    clock.advance(at.since(clock.now()));
    let attempts = before.attempts;
    until_post(server, "the next attempt", move |post| {
        post.attempts > attempts && post.state.status() != OutboxStatus::Claimed
    })
    .await
}

/// Issue 6: the official crate verifies what we send, its own check of the time included.
#[tokio::test]
async fn the_official_crate_verifies_what_a_subscription_is_sent() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (id, secret) = subscribe(&server, &receiver.url(), &["run.completed", "run.cancelled"]).await;
    let run = end_a_run(&server).await;
    let received = receiver.until(1).await.remove(0);
    standardwebhooks::Webhook::new(&secret).unwrap().verify(&received.body, &received.headers).unwrap();
    assert_eq!(received.header("content-type"), "application/json");
    assert!(received.header("user-agent").starts_with("hapax/"), "{}", received.header("user-agent"));
    assert!(!received.header("webhook-id").contains('.'));
    let body = received.json();
    assert_eq!((&body["type"], &body["data"]["runId"]), (&json!("run.completed"), &json!(run)));
    assert_eq!(body["data"]["workflow"], "echo");
    let post = until_post(&server, "it is delivered", is(OutboxStatus::Delivered)).await;
    let shown = server.get(&format!("{DELIVERIES}?subscription={id}")).await.json();
    let [shown] = &shown["items"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!(shown["id"], post.id.to_string());
    assert_eq!(shown["webhookId"], received.header("webhook-id"));
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("delivered"), &json!(1)));
    assert_eq!((&shown["event"], &shown["runId"]), (&json!("run.completed"), &json!(run)));
    assert_eq!(shown["body"], body);
    assert!(shown["deliveredAt"].is_string() && shown["failure"].is_null(), "{shown}");
    // Events without a subscriber are not sent.
    let fails =
        json!({ "name": "fails", "version": 1, "steps": [{ "name": "a", "type": "task", "task": "fail" }] });
    let fails = server.upload(&fails).await;
    let failed = server.start(&fails, json!({})).await;
    assert_eq!(server.end(&failed).await["run"]["status"], "FAILED");
    assert_eq!(acme(&server).list_after_effects(None, None, 10).await.unwrap().len(), 1);
}

/// RELIABILITY, webhooks out: Ed25519. The receiver can read the public key at any time, and never
/// the private one.
#[tokio::test]
async fn a_subscription_may_ask_for_ed25519_and_its_receiver_knows_no_secret() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let asked =
        json!({ "name": "signed", "url": receiver.url(), "events": ["run.completed"], "signing": "ed25519" });
    let made = server.post(SUBSCRIPTIONS, &asked, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["subscription"]["id"].as_str().unwrap().to_owned();
    let first = made.json()["secret"].as_str().unwrap().to_owned();
    assert!(first.starts_with("whpk_") && !made.text().contains("whsk_"), "{}", made.text());
    assert_eq!(server.get(&format!("{SUBSCRIPTIONS}/{id}")).await.json()["publicKey"], json!(first));
    let rotated = server.post(&format!("{SUBSCRIPTIONS}/{id}/rotate"), &json!({}), &[]).await.json();
    let second = rotated["secret"].as_str().unwrap().to_owned();
    assert!(second.starts_with("whpk_") && second != first, "{rotated}");
    end_a_run(&server).await;
    let received = receiver.until(1).await.remove(0);
    assert!(
        !received.header("webhook-signature").contains("v1,"),
        "{}",
        received.header("webhook-signature")
    );
    for key in [first, second] {
        let verifier =
            hapax_webhooks::Verifier::new(hapax_webhooks::Scheme::StandardWebhooks, &[key]).unwrap();
        let now = std::time::SystemTime::now();
        assert_eq!(verifier.verify(&received.headers, &received.body, now), Ok(()));
        assert!(verifier.verify(&received.headers, b"{}", now).is_err());
    }
    let bad = json!({ "name": "b", "url": receiver.url(), "events": ["run.completed"], "signing": "rsa" });
    assert_eq!(server.post(SUBSCRIPTIONS, &bad, &[]).await.told(), (400, "invalid_request".into()));
}

/// RELIABILITY 51, 52: one id for all attempts, each with its own time, then dead, visible and
/// redeliverable.
#[tokio::test]
async fn a_delivery_is_tried_for_days_under_one_id_then_dead_then_redelivered() {
    let ((server, clock), receiver) = (TestServer::timed().await, Receiver::start().await);
    let (id, secret) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.usually(500);
    end_a_run(&server).await;
    let begun = clock.now();
    let mut post = until_post(&server, "an attempt", |post| post.failure.is_some()).await;
    let shown = server.get(&format!("{DELIVERIES}?subscription={id}&status=due")).await.json();
    assert_eq!(shown["items"][0]["failure"]["message"], "answered 500", "{shown}");
    assert!(shown["items"][0]["nextAttemptAt"].is_string(), "{shown}");
    while post.state.status() == OutboxStatus::Due {
        post = attempt_again(&server, &clock, &post).await;
    }
    assert_eq!((post.state.status(), post.attempts), (OutboxStatus::Dead, 10));
    let over = clock.now().since(begun);
    assert!(over > Duration::from_secs(60 * 3600), "{over:?}");
    let received = receiver.received();
    assert_eq!(received.len(), 10);
    assert!(received.iter().all(|one| one.is_signed_with(&secret)));
    assert!(received.iter().all(|one| one.body == received[0].body));
    assert!(received.iter().all(|one| one.header("webhook-id") == received[0].header("webhook-id")));
    let time = |one: &Received| one.header("webhook-timestamp").parse::<u64>().unwrap();
    assert!(received.windows(2).all(|pair| time(&pair[0]) < time(&pair[1])));
    let shown = server.get(&format!("{DELIVERIES}?status=dead")).await.json();
    let dead = &shown["items"][0];
    assert_eq!((&dead["status"], &dead["attempts"]), (&json!("dead"), &json!(10)), "{shown}");
    assert!(dead["failure"]["message"].as_str().unwrap().starts_with("answered 500"), "{dead}");
    assert!(dead["givenUpAt"].is_string() && dead["nextAttemptAt"].is_null(), "{dead}");

    receiver.usually(200);
    let path = format!("{DELIVERIES}/{}/redeliver", dead["id"].as_str().unwrap());
    for (bad, code) in [
        (json!({ "reason": " " }), "ruling_incomplete"),
        (json!({ "reason": "x".repeat(4_097) }), "invalid_request"),
        (json!({ "reason": "it is up", "by": "x".repeat(129) }), "invalid_request"),
    ] {
        assert_eq!(server.post(&path, &bad, &[]).await.told(), (400, code.into()), "{bad}");
    }
    let again = server.post(&path, &json!({ "reason": "the receiver is up again", "by": "ada" }), &[]).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("due")), "{}", again.text());
    until_post(&server, "it is delivered", is(OutboxStatus::Delivered)).await;
    let received = receiver.received();
    assert_eq!(received.len(), 11);
    assert_eq!(received[10].header("webhook-id"), received[0].header("webhook-id"));
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let redelivered = audit["items"].as_array().unwrap().iter().find(|entry| entry["what"] == "redelivered");
    let redelivered = redelivered.unwrap_or_else(|| panic!("{audit}"));
    assert_eq!(redelivered["reason"], "the receiver is up again");
    assert!(redelivered["actor"]["name"].as_str().unwrap().starts_with("ada"), "{redelivered}");
}

/// CONTRACT §9: 410 disables the subscription; that is visible and can be repaired.
#[tokio::test]
async fn a_receiver_that_answers_410_gets_nothing_until_it_is_enabled() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.plan(410, &[]);
    end_a_run(&server).await;
    let dead = until_post(&server, "it is given up", is(OutboxStatus::Dead)).await;
    assert_eq!(dead.attempts, 1);
    let path = format!("{SUBSCRIPTIONS}/{id}");
    let shown = server.get(&path).await.json();
    assert_eq!(shown["status"], "disabled");
    assert!(shown["reason"].as_str().unwrap().contains("410"), "{shown}");
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let entries = audit["items"].as_array().unwrap();
    let told =
        entries.iter().filter(|entry| entry["what"] == "subscription_changed" && entry["target"] == id);
    let told: Vec<&str> = told.map(|entry| entry["command"].as_str().unwrap()).collect();
    assert!(
        told.len() == 2 && told[0] == "created" && told[1].starts_with("disabled: answered 410"),
        "{told:?}"
    );
    // Nothing new is left for it, and nothing old is sent.
    end_a_run(&server).await;
    assert_eq!(acme(&server).list_after_effects(None, None, 10).await.unwrap().len(), 1);
    let redeliver = format!("{DELIVERIES}/{}/redeliver", dead.id);
    let refused = server.post(&redeliver, &json!({ "reason": "try" }), &[]).await;
    assert_eq!(refused.told(), (409, "subscription_disabled".into()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("410"), "{}", refused.text());
    let enabled = server.patch(&path, &json!({ "status": "enabled" }), &[]).await.json();
    assert_eq!((&enabled["status"], &enabled["reason"]), (&json!("enabled"), &Value::Null));
    assert_eq!(server.post(&redeliver, &json!({ "reason": "it is back" }), &[]).await.status, 200);
    until_post(&server, "it is delivered", is(OutboxStatus::Delivered)).await;
    assert_eq!(receiver.received().len(), 2);
}

/// RELIABILITY, webhooks out: `Retry-After` is honoured.
#[tokio::test]
async fn a_receiver_may_ask_for_a_pause() {
    let ((server, clock), receiver) = (TestServer::timed().await, Receiver::start().await);
    subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.plan(429, &[("retry-after", "7200")]);
    receiver.plan(503, &[("retry-after", "999999999")]);
    end_a_run(&server).await;
    for (pause, most) in [(7_200, 7_200), (86_400, 86_400)] {
        let post = until_post(&server, "it waits", |post| {
            matches!(post.state, OutboxState::Due { at } if at.since(clock.now()) > Duration::from_secs(3_600))
        })
        .await;
        let OutboxState::Due { at } = post.state else { panic!("{post:?}") };
        let wait = at.since(clock.now()).as_secs();
        assert!((pause..=most).contains(&wait), "{wait}");
        attempt_again(&server, &clock, &post).await;
    }
    until_post(&server, "it is delivered", is(OutboxStatus::Delivered)).await;
}

/// A redirect is not followed, and is no success.
#[tokio::test]
async fn a_redirect_is_a_failure() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let elsewhere = Receiver::start().await;
    subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.plan(307, &[("location", &elsewhere.url())]);
    end_a_run(&server).await;
    let post = until_post(&server, "an attempt", |post| post.failure.is_some()).await;
    assert!(post.failure.unwrap().message().starts_with("answered 307"));
    assert!(elsewhere.received().is_empty());
}

/// RELIABILITY, SSRF: under the rules of `serve`, a private address can be neither subscribed nor
/// called.
#[tokio::test]
async fn addresses_that_are_not_public_are_refused_when_they_are_given_and_when_they_are_called() {
    let server = TestServer::memory_with(Setup { rules: Rules::default(), ..Setup::default() }).await;
    let receiver = Receiver::start().await;
    let own = receiver.url();
    let refused = [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/hooks",
        "http://192.168.1.1/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0x7f.1/",
        own.as_str(),
    ];
    for url in refused {
        let asked = json!({ "name": "inside", "url": url, "events": ["run.completed"] });
        let answer = server.post(SUBSCRIPTIONS, &asked, &[]).await;
        assert_eq!(answer.told(), (422, "address_not_allowed".into()), "{url}: {}", answer.text());
        assert_eq!(answer.json()["path"], "/url");
    }
    for url in ["", " ", "hooks", "ftp://example.com/", "https://ada:secret@example.com/", "https://"] {
        let asked = json!({ "name": "no address", "url": url, "events": ["run.completed"] });
        let answer = server.post(SUBSCRIPTIONS, &asked, &[]).await;
        assert_eq!(answer.told(), (400, "invalid_request".into()), "{url}: {}", answer.text());
    }
    // A name is resolved when it is called.
    let url = own.replace("127.0.0.1", "localhost");
    let (id, _) = subscribe(&server, &url, &["run.completed"]).await;
    let tested = server.post(&format!("{SUBSCRIPTIONS}/{id}/test"), &json!({}), &[]).await.json();
    assert_eq!((&tested["delivered"], &tested["status"]), (&json!(false), &Value::Null), "{tested}");
    end_a_run(&server).await;
    let dead = until_post(&server, "it is given up", is(OutboxStatus::Dead)).await;
    assert!(dead.failure.unwrap().message().contains("only public addresses"));
    assert!(receiver.received().is_empty(), "nothing was sent");
}

/// Only the server notifies subscriptions about runs: no workflow, of any workspace, can have its
/// own message signed as the server's.
#[tokio::test]
async fn a_workflow_cannot_speak_to_a_subscription() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let forge = move |ctx: Ctx, (): ()| {
        let target = format!("webhook.{id}");
        async move { ctx.after_effect(&target, &json!({ "type": "run.completed" })).await }
    };
    server.engine.register("forge", forge).unwrap();
    for workspace in ["acme", "globex"] {
        let engine = server.engine.workspace(WorkspaceId::new(workspace).unwrap());
        let refused = engine.start("forge", &()).await.unwrap().result::<String>().await.unwrap_err();
        assert!(refused.to_string().contains("only announcements may use"), "{refused}");
        assert!(engine.list_after_effects(None, None, 10).await.unwrap().is_empty());
    }
    assert!(receiver.received().is_empty());
}

/// The same for messages from an entity's document: they are not sent, and the reason is visible.
#[tokio::test]
async fn an_entity_cannot_speak_to_a_subscription_either() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let document = json!({
        "name": "letters", "module": "billing", "entity": "letter", "status_types": ["draft", "sending", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "draft", "successful_state": "sent",
            "claim_state": ["sending", "draft"], "action": "echo", "success_after_effect": format!("webhook.{id}"),
        }],
    });
    let uploaded = server.post("/api/v1/entity-workflows", &document, &[]).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    server.post("/api/v1/entities/letter", &json!({ "id": "l-1", "status": "draft" }), &[]).await;
    let sent = server.post("/api/v1/entities/letter/l-1/steps/send", &json!({}), &[]).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let dead = until_post(&server, "it is given up", is(OutboxStatus::Dead)).await;
    assert_eq!(dead.failure.unwrap().code(), Some("target_reserved"));
    assert!(receiver.received().is_empty());
}

/// Doubts are announced, too, so that people can rule.
#[tokio::test]
async fn a_doubt_is_announced() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    subscribe(&server, &receiver.url(), &["effect.in_doubt"]).await;
    let wire = |ctx: Ctx, (): ()| async move {
        ctx.step("wire", |_| async { Err::<(), _>(Failure::unknown("the line was cut")) }).claimed().await
    };
    server.engine.register("pay", wire).unwrap();
    let run = acme(&server).start("pay", &()).await.unwrap();
    let told = receiver.until(1).await.remove(0).json();
    assert_eq!(told["type"], "effect.in_doubt");
    assert_eq!(
        (&told["data"]["runId"], &told["data"]["step"]),
        (&json!(run.id().to_string()), &json!("wire"))
    );
}
