//! Invalid definitions. RELIABILITY, "Config files, workflow definitions".

use hapax_outgoing::Rules;
use hapax_server::limits::MAX_DEFINITIONS_PER_WORKSPACE;
use serde_json::{Value, json};

use super::support::{Answer, Role, Setup, TestServer};

const DEFINITIONS: &str = "/api/v1/workflow-definitions";

async fn upload(server: &TestServer, kind: &str, text: impl Into<String>) -> Answer {
    server.send("POST", DEFINITIONS, Some(text.into()), &server.admin, &[("content-type", kind)]).await
}

/// All problems at once, each with its path and its rule.
#[tokio::test]
async fn all_problems_are_told_at_once() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "bad name", "version": 0, "colour": "red",
        "steps": [
            { "name": "a", "type": "task", "task": "nobody-does-this" },
            { "name": "a", "type": "wait", "for": "-5s" },
            { "name": "b", "type": "http", "method": "GET", "url": "https://x/", "when": "1 +" },
        ],
    });
    let refused = server.post(DEFINITIONS, &document, &[]).await;
    assert_eq!(refused.told(), (422, "definition_invalid".into()));
    let problem = refused.json();
    let paths: Vec<&str> =
        problem["problems"].as_array().unwrap().iter().filter_map(|found| found["path"].as_str()).collect();
    for expected in
        ["/name", "/version", "/colour", "/steps/0/task", "/steps/1/name", "/steps/1/for", "/steps/2/when"]
    {
        assert!(paths.contains(&expected), "{expected} is not in {paths:?}");
    }
    assert_eq!(server.get(DEFINITIONS).await.json()["items"], json!([]));
}

/// RELIABILITY, SSRF: a forbidden address is an error at upload, in steps and in entity workflows,
/// unless the workspace is allowed to use it.
#[tokio::test]
async fn an_address_that_may_not_be_called_is_told_at_upload() {
    let rules = Rules { allow: vec!["10.1.0.0/16".parse().unwrap()], ..Rules::default() };
    let server = TestServer::memory_with(Setup { rules, ..Setup::default() }).await;
    let document = |url: &str| {
        let call = json!({ "name": "call", "type": "http", "method": "POST", "url": url });
        json!({ "name": "calls", "version": 1, "steps": [call] })
    };
    for closed in
        ["http://127.0.0.1/", "http://169.254.169.254/{{ input.path }}", "http://10.8.0.1/", "http://x:25/"]
    {
        let refused = server.post(DEFINITIONS, &document(closed), &[]).await;
        assert_eq!(refused.told(), (422, "address_not_allowed".into()), "{closed}: {}", refused.text());
        assert_eq!(refused.json()["problems"][0]["path"], "/steps/0/url");
    }
    let workflow = json!({
        "name": "invoices", "module": "billing", "entity": "invoice", "status_types": ["open", "closing", "closed"],
        "steps": [{ "step_id": 1, "step_key": "close", "status": "open", "successful_state": "closed",
                    "claim_state": ["closing", "open"],
                    "action": { "http": { "method": "POST", "url": "http://[::1]/close" } } }],
    });
    let refused = server.post("/api/v1/entity-workflows", &workflow, &[]).await;
    assert_eq!(refused.told(), (422, "address_not_allowed".into()), "{}", refused.text());
    let mut both = document("http://127.0.0.1/");
    both["colour"] = json!("red");
    assert_eq!(server.post(DEFINITIONS, &both, &[]).await.told(), (422, "definition_invalid".into()));
    server.upload(&document("http://10.1.0.1/{{ input.path }}")).await;
}

/// RELIABILITY, resource limits: one workspace cannot use up the room of all.
#[tokio::test]
async fn a_workspace_that_has_its_share_of_definitions_leaves_the_rest_to_others() {
    let server = TestServer::memory().await;
    let named = |version: usize| {
        let steps = json!([{ "name": "a", "type": "task", "task": "echo" }]);
        json!({ "name": "one-of-many", "version": version, "steps": steps }).to_string()
    };
    for version in 1..=MAX_DEFINITIONS_PER_WORKSPACE {
        assert_eq!(upload(&server, "application/json", named(version)).await.status, 201, "{version}");
    }
    let refused = upload(&server, "application/json", named(MAX_DEFINITIONS_PER_WORKSPACE + 1)).await;
    assert_eq!(refused.told(), (409, "definition_limit_reached".into()), "{}", refused.text());
    assert_eq!(refused.json()["quota"], "definitions");
    assert_eq!(upload(&server, "application/json", named(1)).await.status, 200, "what is there is found");
    let globex = server.key("globex", Role::Admin).await;
    let made = server.send("POST", DEFINITIONS, Some(named(1)), &globex, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Too large, too deep, growing aliases, two documents, not UTF-8: rejected quickly, and the server
/// survives.
#[tokio::test]
async fn oversized_definitions_are_rejected() {
    let server = TestServer::memory().await;
    let steps = |count: usize| -> Value {
        (0..count).map(|n| json!({ "name": format!("s{n}"), "type": "task", "task": "echo" })).collect()
    };
    let many = json!({ "name": "many", "version": 1, "steps": steps(1_001) }).to_string();
    assert_eq!(upload(&server, "application/json", many).await.told(), (422, "definition_invalid".into()));
    let flood = json!({ "name": "flood", "version": 1, "steps": steps(100_000) }).to_string();
    assert_eq!(upload(&server, "application/json", flood).await.told(), (413, "payload_too_large".into()));
    let large = format!("{{\"name\":\"{}\"", "x".repeat(5 * 1024 * 1024));
    assert_eq!(upload(&server, "application/json", large).await.told(), (413, "payload_too_large".into()));
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (next, last) in
        ["b", "c", "d", "e", "f", "g", "h", "i"].iter().zip(["a", "b", "c", "d", "e", "f", "g", "h"])
    {
        let aliases = vec![format!("*{last}"); 10].join(",");
        bomb.push_str(&format!("{next}: &{next} [{aliases}]\n"));
    }
    let deep =
        format!("{{\"name\":\"deep\",\"version\":1,\"steps\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    for (kind, text) in [
        ("application/yaml", bomb),
        ("application/yaml", "name: a\n---\nname: b\n".into()),
        ("application/yaml", "name: a\nname: b\n".into()),
        ("application/yaml", "{".repeat(20_000)),
        ("application/yaml", String::new()),
        ("application/yaml", "!!python/object:os.system x\n".into()),
        ("application/json", deep),
        ("application/json", "{\"name\":\"a\",\"name\":\"b\",\"version\":1,\"steps\":[]}".into()),
        ("application/json", String::new()),
        ("application/json", "null".into()),
        ("application/json", "{\"name\":\"nul\\u0000\",\"version\":1,\"steps\":[]}".into()),
    ] {
        let shown: String = text.chars().take(40).collect();
        let refused = upload(&server, kind, text).await;
        assert!(matches!(refused.status, 400 | 422), "{shown}: {} {}", refused.status, refused.text());
        assert!(refused.text().len() < 64 * 1024, "{shown}");
    }
    for (kind, bytes) in [
        ("application/yaml", &b"name: \"\xff\"\nversion: 1\n"[..]),
        ("application/json", b"{\"name\":\"\xff\",\"version\":1,\"steps\":[]}"),
    ] {
        let request = server.http.post(format!("{}{DEFINITIONS}", server.url)).bearer_auth(&server.admin);
        let refused = request.header("content-type", kind).body(bytes).send().await.unwrap();
        assert!(matches!(refused.status().as_u16(), 400 | 422), "{kind}: {}", refused.status());
        assert!(refused.text().await.unwrap().contains("UTF-8"), "{kind}");
    }
    for kind in ["text/plain", "application/json; charset=utf-16", "application/toml"] {
        assert_eq!(
            upload(&server, kind, "{}").await.told(),
            (415, "unsupported_media_type".into()),
            "{kind}"
        );
    }
    assert_eq!(server.get(DEFINITIONS).await.json()["items"], json!([]));
}

/// Windows line ends and a byte order mark are allowed in YAML; the content is stored.
#[tokio::test]
async fn yaml_may_come_from_any_editor() {
    let server = TestServer::memory().await;
    let text = "name: from-windows\nversion: 1\nsteps:\n  - name: say\n    type: task\n    task: echo\n    input: { said: \"{{ input.x }}\" }\n";
    let first = upload(&server, "application/yaml", text).await;
    assert_eq!(first.status, 201, "{}", first.text());
    for same in [text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let again = upload(&server, "text/yaml; charset=utf-8", same.clone()).await;
        assert_eq!(
            (again.status, &again.json()["id"]),
            (200, &first.json()["id"]),
            "{same:?} {}",
            again.text()
        );
    }
    // Equal JSON counts as the same document.
    let json = json!({
        "version": 1, "name": "from-windows",
        "steps": [{ "type": "task", "name": "say", "task": "echo", "input": { "said": "{{ input.x }}" } }],
    });
    assert_eq!(server.post(DEFINITIONS, &json, &[]).await.status, 200);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let run = server.start(&id, json!({ "x": 5 })).await;
    assert_eq!(server.end(&run).await["run"]["output"], json!({ "said": 5 }));
}

/// CONTRACT §8, issue: a non-idempotent effect needs protection.
#[tokio::test]
async fn an_unprotected_effect_is_refused() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "careless", "version": 1,
        "steps": [{ "name": "pay", "type": "task", "task": "echo", "nonIdempotent": true }],
    });
    let refused = server.post(DEFINITIONS, &document, &[]).await;
    assert_eq!(refused.told(), (422, "unprotected_effect".into()), "{}", refused.text());
}

/// Same name and version: the same content is found, different content is rejected, and nothing
/// changes.
#[tokio::test]
async fn a_version_never_changes() {
    let server = TestServer::sqlite().await;
    let document = |said: &str| {
        json!({
            "name": "fixed", "version": 1,
            "steps": [{ "name": "say", "type": "task", "task": "echo", "input": { "said": said } }],
        })
    };
    let first = server.post(DEFINITIONS, &document("one"), &[]).await;
    assert_eq!(first.status, 201);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(first.header("location"), Some(format!("{DEFINITIONS}/{id}").as_str()));
    let again = server.post(DEFINITIONS, &document("one"), &[]).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = server.post(DEFINITIONS, &document("two"), &[]).await;
    assert_eq!(other.told(), (409, "definition_exists".into()));
    assert_eq!(other.json()["definitionId"], json!(id));
    let mut next = document("two");
    next["version"] = json!(2);
    assert_eq!(server.post(DEFINITIONS, &next, &[]).await.status, 201);
    let shown = server.get(&format!("{DEFINITIONS}/{id}")).await.json();
    assert_eq!((&shown["document"], &shown["version"]), (&document("one"), &json!(1)));
    let mut seen = Vec::new();
    let mut path = format!("{DEFINITIONS}?limit=1");
    loop {
        let page = server.get(&path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["version"].as_u64().unwrap()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("{DEFINITIONS}?limit=1&cursor={cursor}");
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
}
