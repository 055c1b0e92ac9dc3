//! Tokens of identity providers at the API.

use serde_json::{Value, json};

use super::support::{Answer, IdentityProvider, Role, Setup, TestServer};

const DOUBTS: &str = "/api/v1/doubts";

async fn with_provider() -> (TestServer, IdentityProvider) {
    let provider = IdentityProvider::start().await;
    let setup = Setup { people: Some(provider.settings()), ..Setup::default() };
    (TestServer::memory_with(setup).await, provider)
}

async fn read(server: &TestServer, token: &str) -> Answer {
    server.send("GET", DOUBTS, None, token, &[]).await
}

#[tokio::test]
async fn a_token_gives_the_role_of_its_claim() {
    let (server, provider) = with_provider().await;
    for key in ["ec", "rsa"] {
        if key == "rsa" {
            provider.use_rsa("rsa-1", 0);
        }
        let ada = provider.access_token("ada", &json!({}));
        assert_eq!(read(&server, &ada).await.status, 200, "{key}");
        let body = json!({ "reason": "no" }).to_string();
        let refused = server.send("POST", "/api/v1/keys/run/k/release", Some(body.clone()), &ada, &[]).await;
        assert_eq!(refused.told(), (403, "forbidden".into()), "{key}");
        let grace = provider.access_token("grace", &json!({}));
        let absent = server.send("POST", "/api/v1/keys/run/k/release", Some(body), &grace, &[]).await;
        assert_eq!(absent.status, 404, "{key}: a manager may, and there is no such key");
    }
    let nobody = read(&server, &provider.access_token("eve", &json!({}))).await;
    assert_eq!(nobody.told(), (403, "no_role".into()));
}

#[tokio::test]
async fn a_token_that_is_not_right_in_every_way_is_refused() {
    let (server, provider) = with_provider().await;
    for (bent, why) in [
        (json!({ "aud": "hapax" }), "made for the console"),
        (json!({ "aud": "other" }), "audience"),
        (json!({ "aud": null }), "no audience"),
        (json!({ "iss": "https://evil.example" }), "issuer"),
        (json!({ "exp": 1_600_000_000 }), "expired"),
        (json!({ "exp": null }), "endless"),
        (json!({ "nbf": 4_000_000_000_i64 }), "not yet"),
        (json!({ "sub": null }), "nobody"),
    ] {
        let refused = read(&server, &provider.access_token("ada", &bent)).await;
        assert_eq!(refused.told(), (401, "unauthorized".into()), "{why}: {}", refused.text());
    }
    let sound = provider.access_token("ada", &json!({}));
    let (signed, signature) = sound.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    for (text, why) in [
        (format!("{signed}."), "unsigned"),
        (format!("{signed}.{}", signature.chars().rev().collect::<String>()), "another signature"),
        (format!("{header}.eyJzdWIiOiJ1LWdyYWNlIn0.{signature}"), "other claims"),
    ] {
        assert_eq!(read(&server, &text).await.status, 401, "{why}");
    }
    assert_eq!(read(&server, &sound).await.status, 200);
}

/// RFC 8725: neither `none`, nor a shared secret, nor a key of another kind.
#[tokio::test]
async fn no_other_algorithm_is_accepted() {
    let (server, provider) = with_provider().await;
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "RS256" }),
        json!({ "alg": "PS256" }),
        json!({ "kid": "other" }),
        json!({ "crit": ["exp"] }),
        json!({ "typ": "logout+jwt" }),
    ] {
        let refused = read(&server, &provider.access_token_with("ada", &header)).await;
        assert_eq!(refused.status, 401, "{header}");
    }
}

#[tokio::test]
async fn a_token_signed_with_a_key_that_was_replaced_no_longer_counts() {
    let (server, provider) = with_provider().await;
    provider.use_rsa("rsa-1", 0);
    let old = provider.access_token("ada", &json!({}));
    assert_eq!(read(&server, &old).await.status, 200);
    provider.use_rsa("rsa-2", 1);
    assert_eq!(read(&server, &provider.access_token("ada", &json!({}))).await.status, 200);
    assert_eq!(read(&server, &old).await.status, 401);
}

/// The scope of request keys is the person, whatever token they come with.
#[tokio::test]
async fn a_retry_with_a_fresh_token_finds_the_first_response() {
    let (server, provider) = with_provider().await;
    let body = json!({ "definitionId": server.echo().await, "input": { "n": 1 } }).to_string();
    let start = async |person: &str| {
        let token = provider.access_token(person, &json!({ "jti": person }));
        let headers = [("idempotency-key", "k1")];
        server.send("POST", "/api/v1/workflow-runs", Some(body.clone()), &token, &headers).await
    };
    let (first, again, other) = (start("ada").await, start("ada").await, start("grace").await);
    assert_eq!((first.status, &first.bytes), (201, &again.bytes));
    assert_ne!(first.json()["run"]["id"], other.json()["run"]["id"]);
}

#[tokio::test]
async fn without_a_provider_a_token_is_nothing() {
    let provider = IdentityProvider::start().await;
    let server = TestServer::memory().await;
    assert_eq!(read(&server, &provider.access_token("ada", &json!({}))).await.status, 401);
    let page = server.send("GET", "/console/sign-in/provider?name=corp", None, "", &[]).await;
    assert_eq!(page.status, 404);
}

#[tokio::test]
async fn a_provider_that_is_away_is_not_the_callers_fault() {
    let provider = IdentityProvider::start().await;
    let mut people = provider.settings();
    // Nobody listens there.
    people.providers[0].issuer = "http://localhost:1".into();
    let server = TestServer::memory_with(Setup { people: Some(people), ..Setup::default() }).await;
    let token = provider.access_token("ada", &json!({ "iss": "http://localhost:1" }));
    let answer = read(&server, &token).await;
    assert_eq!(answer.told(), (503, "identity_provider_unavailable".into()), "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    let key = server.key("acme", Role::Viewer).await;
    assert_eq!(read(&server, &key).await.status, 200);
}

#[tokio::test]
async fn a_credential_is_bound_to_networks_and_must_end_where_that_is_the_rule() {
    let longest = Some(std::time::Duration::from_secs(90 * 24 * 3600));
    let server =
        TestServer::memory_with(Setup { longest_credential_life: longest, ..Setup::default() }).await;
    let issue = async |body: Value| server.post("/api/v1/credentials", &body, &[]).await;
    for (more, path) in [
        (json!({}), "/expiresIn"),
        (json!({ "expiresIn": "91d" }), "/expiresIn"),
        (json!({ "expiresIn": "1d", "networks": ["10.0.0.0/33"] }), "/networks/0"),
        (json!({ "expiresIn": "1d", "networks": vec!["10.0.0.1"; 51] }), "/networks"),
    ] {
        let mut body = json!({ "name": "ci", "role": "viewer" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = issue(body).await;
        assert_eq!((refused.status, &refused.json()["path"]), (400, &path.into()), "{}", refused.text());
    }
    let bound =
        |network: &str| json!({ "name": "ci", "role": "viewer", "expiresIn": "90d", "networks": [network] });
    let elsewhere = issue(bound("10.8.0.0/16")).await.json();
    assert_eq!(elsewhere["credential"]["networks"], json!(["10.8.0.0/16"]));
    let refused = read(&server, elsewhere["apiKey"].as_str().unwrap()).await;
    assert_eq!(refused.told(), (403, "network_not_allowed".into()), "{}", refused.text());
    for here in ["127.0.0.0/8", "127.0.0.1"] {
        let issued = issue(bound(here)).await.json();
        assert_eq!(read(&server, issued["apiKey"].as_str().unwrap()).await.status, 200, "{here}");
    }
}

/// A program that only starts runs has a key that only starts runs.
#[tokio::test]
async fn a_credential_that_is_bound_to_routes_calls_no_others() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    let issue = async |routes: Value| {
        let body = json!({ "name": "shop", "role": "admin", "routes": routes });
        server.post("/api/v1/credentials", &body, &[]).await
    };
    for (routes, path) in [
        (json!(["POST /api/v1/workflow-run"]), "/routes/0"),
        (json!(["GET /api/v1/workflow-runs", "/api/v1/workflow-runs"]), "/routes/1"),
        (json!(vec!["GET /api/v1/workflow-runs"; 51]), "/routes"),
    ] {
        let refused = issue(routes).await;
        assert_eq!((refused.status, &refused.json()["path"]), (400, &path.into()), "{}", refused.text());
    }
    let issued = issue(json!(["POST /api/v1/workflow-runs", "GET /api/v1/workflow-runs/{id}"])).await.json();
    assert_eq!(issued["credential"]["routes"][0], "POST /api/v1/workflow-runs");
    let key = issued["apiKey"].as_str().unwrap();
    let body = json!({ "definitionId": definition, "input": {} }).to_string();
    let started = server.send("POST", "/api/v1/workflow-runs", Some(body), key, &[]).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let run = format!("/api/v1/workflow-runs/{}", started.json()["run"]["id"].as_str().unwrap());
    assert_eq!(server.send("GET", &run, None, key, &[]).await.status, 200);
    for other in ["/api/v1/workflow-runs", "/api/v1/credentials", &format!("{run}/events")] {
        let refused = server.send("GET", other, None, key, &[]).await;
        assert_eq!(refused.told(), (403, "forbidden".into()), "{other}: {}", refused.text());
    }
}
