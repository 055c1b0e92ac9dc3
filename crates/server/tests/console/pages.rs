//! Every page is there, says what it says, and carries what keeps a browser safe.

use hapax_api::Role;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::browser::Browser;
use super::support::{Provider, TestServer};

#[tokio::test]
async fn every_page_has_the_headers_that_keep_a_browser_safe_and_loads_nothing_from_elsewhere() {
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    for path in [
        "/console/sign-in",
        "/console/runs",
        "/console/evidence",
        "/console/ledger",
        "/console/admin/nodes",
        "/console/workflows/workers",
        "/console/doubts",
        "/console/entities",
        "/console/sessions",
        "/console/search?q=x",
        "/console/runs/run_x",
    ] {
        let answer = browser.get(path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path}: {policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'")
                && policy.contains("base-uri 'none'")
                && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let page = answer.text();
        assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "{path}");
        assert!(page.contains("<html lang=\"en\"") && page.contains("<title>"), "{path}");
    }
}

#[tokio::test]
async fn an_address_without_a_page_is_answered_with_a_page_that_leads_on() {
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    for path in
        ["/console/nothing", "/console/runs/run_x", "/console/entities/none/1", "/console/operations/op_x"]
    {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("href=\"/console/runs\""), "{path}: the navigation is there");
    }
}

#[tokio::test]
async fn style_and_script_may_be_kept_for_ever_because_their_names_hold_a_hash() {
    let server = TestServer::memory().await;
    let browser = Browser::new(&server);
    let page = browser.page("/console/sign-in").await;
    let mut found = 0;
    for part in page.split("/console/assets/").skip(1) {
        let name = part.split('"').next().unwrap();
        let asset = browser.get(&format!("/console/assets/{name}")).await;
        assert_eq!(asset.status, 200, "{name}");
        assert!(asset.header("cache-control").unwrap().contains("immutable"), "{name}");
        found += 1;
    }
    assert_eq!(found, 3, "a style, a script, an icon");
    assert_eq!(browser.get("/console/assets/console-0000000000000000.css").await.status, 404);
}

#[tokio::test]
async fn a_run_s_page_shows_its_steps_effects_history_and_what_it_waits_for() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "order", "version": 1,
        "steps": [
            { "name": "say", "type": "task", "task": "echo", "input": { "cents": "{{ input.cents }}" } },
            { "name": "packed", "type": "promise", "key": "packed:{{ input.order }}", "timeout": "3d" },
        ],
    });
    let definition = server.upload(&document).await;
    let asked = json!({ "definitionId": definition, "input": { "order": "4711", "cents": 9007199254740993_i64 }, "subject": "order-4711" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.until(&run, "WAITING").await;
    let browser = Browser::admin(&server).await;
    let path = format!("/console/runs/{run}");
    let page = browser.page(&path).await;
    for expected in [
        "order-4711",
        "packed:4711",
        "id=\"step-say\"",
        "id=\"step-packed\"",
        "9007199254740993",
        "Cancel run",
        "Resolve it",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(browser.page("/console/runs?status=WAITING").await.contains(&run));
    assert!(!browser.page("/console/runs?status=FAILED").await.contains(&run));
    assert!(browser.page(&format!("{path}?tab=history")).await.contains("started"));
    assert!(browser.page(&format!("{path}?tab=effects")).await.contains(&format!("{run}:say")));
    for query in ["order-4711", &run, "packed:4711"] {
        let found = browser.page(&format!("/console/search?q={query}")).await;
        assert!(found.contains(&run) && found.contains("waits for"), "{query}: {found}");
    }
    let form = browser.form(&path, &format!("{path}/settle")).await;
    assert_eq!(form.field("how"), "resolve");
    assert_eq!(browser.submit(&form.with("value", "{\"weight\":3}")).await.status, 303);
    server.until(&run, "COMPLETED").await;
    assert!(browser.page(&path).await.contains("Completed"));
    assert!(browser.page("/console/search?q=nothing-has-this-name").await.contains("exactly this name"));
}

#[tokio::test]
async fn a_retry_shows_first_which_effects_stay_and_which_run_again() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "breaks", "version": 1,
        "steps": [
            { "name": "first", "type": "task", "task": "echo", "input": { "a": 1 } },
            { "name": "second", "type": "task", "task": "fail" },
        ],
    });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.end(&run).await;
    let browser = Browser::admin(&server).await;
    let path = format!("/console/runs/{run}/retry");
    let plan = browser.page(&path).await;
    let (stays, again) = plan.split_once("Runs again").unwrap();
    assert!(stays.contains(&format!("{run}:first")) && !stays.contains(&format!("{run}:second")), "{plan}");
    assert!(again.contains(&format!("{run}:second")), "{plan}");
    assert!(browser.page(&format!("{path}?from=first")).await.contains("Stays done (0)"));
    let form = browser.form(&path, &path).await;
    let led = browser.submit(&form.with("reason", "the provider is back")).await;
    assert_eq!(
        (led.status, led.header("location")),
        (303, Some(format!("/console/runs/{run}").as_str())),
        "{}",
        led.text()
    );
    let notes = browser.page(&format!("/console/runs/{run}?tab=notes")).await;
    assert!(notes.contains("the provider is back"), "{notes}");
}

/// S2.48: a manual ruling follows the same state model.
#[tokio::test]
async fn a_doubt_is_listed_explained_and_decided_and_what_cannot_be_taken_back_takes_a_manager() {
    let server = TestServer::memory().await;
    let provider = Provider::start().await;
    let document = json!({
        "name": "wire", "version": 1,
        "steps": [{
            "name": "send", "type": "http", "method": "POST", "url": provider.url("/cut"), "body": { "cents": 5 },
            "effect": "claimed", "nonIdempotent": true, "output": { "id": "{{ response.body.id }}" },
        }],
    });
    let wire = server.upload(&document).await;
    let run = server.start(&wire, json!({})).await;
    server
        .until_shown("/api/v1/doubts", |page: &Value| {
            page["items"].as_array().is_some_and(|items| !items.is_empty())
        })
        .await;
    let support = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let path = format!("/console/doubts/{run}/send");
    assert!(support.page("/console/doubts").await.contains(&path));
    let page = support.page(&path).await;
    assert!(page.contains(&format!("{run}:send")) && page.contains("One of the two is a manager"), "{page}");
    assert_eq!(
        page.matches(&format!("action=\"{path}/resolve\"")).count(),
        1,
        "support may say that it happened"
    );
    let evidence = support.page("/console/evidence").await;
    assert!(evidence.contains("Steps in doubt</span><span class=\"figure\">1<"), "{evidence}");
    let manager = Browser::signed_in(&server, &server.key("acme", Role::Manager).await).await;
    let page = manager.page(&path).await;
    assert!(page.matches(&format!("action=\"{path}/resolve\"")).count() >= 3, "{page}");
    let form = support.form(&path, &format!("{path}/resolve")).await;
    assert_eq!(form.field("resolution"), "happened");
    let form = form.with("output", "{\"id\":\"ch_1\"}").with("reason", "seen in the bank's portal");
    let (first, second) = tokio::join!(support.submit(&form), support.submit(&form));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text(), second.text());
    server.until(&run, "COMPLETED").await;
    let after = support.page(&path).await;
    assert!(
        after.contains("no longer in doubt") && after.contains("seen in the bank&#39;s portal")
            || after.contains("seen in the bank's portal"),
        "{after}"
    );
}

#[tokio::test]
async fn the_evidence_counts_what_the_ledger_holds_and_its_export_is_a_chain() {
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    assert!(browser.page("/console/evidence").await.contains("Happened twice"));
    let definition = server.echo().await;
    for order in 0..3 {
        let run = server.start(&definition, json!({ "order": order })).await;
        server.end(&run).await;
    }
    let page = browser.page("/console/evidence").await;
    assert!(page.matches("<span class=\"figure\">0</span>").count() >= 2, "{page}");
    assert!(page.contains(">3 effects</a></b>"), "{page}");
    let export = browser.get("/console/evidence/export?format=json").await.json();
    let rows = export["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &export["isComplete"]), (3, &json!(true)));
    assert_eq!(rows[1]["previous"], rows[0]["hash"]);
    assert_eq!(export["seal"], rows[2]["hash"]);
    let csv = browser.get("/console/evidence/export?format=csv").await;
    assert_eq!(csv.text().lines().count(), 4);
    assert!(csv.header("content-disposition").unwrap().contains("hapax-evidence.csv"));
}

/// What an auditor does with an export, from the description in docs/console.md alone.
fn audit(rows: &[(String, String, String)]) -> Result<String, usize> {
    let mut previous = "0".repeat(64);
    for (place, (entry, before, hash)) in rows.iter().enumerate() {
        let digest = Sha256::digest(format!("{previous}\n{entry}"));
        let computed: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if *before != previous || *hash != computed {
            return Err(place);
        }
        previous = computed;
    }
    Ok(previous)
}

/// Runs the program of docs/console.md over an export; answers what it printed, or why it stopped.
fn check_with_python(csv: &str) -> Result<String, String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/console.md");
    let page = std::fs::read_to_string(page).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hapax-evidence.csv"), csv).unwrap();
    let run = std::process::Command::new("python3")
        .args(["-c", program])
        .current_dir(folder.path())
        .output()
        .unwrap();
    match run.status.success() {
        true => Ok(String::from_utf8(run.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8(run.stderr).unwrap()),
    }
}

/// The cells of a CSV, as RFC 4180 has it.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, is_quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\n', false) => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            ('\r', false) => {}
            (letter, _) => cell.push(letter),
        }
    }
    rows
}

#[tokio::test]
async fn an_auditor_checks_an_export_and_sees_a_row_that_was_taken_out_or_changed() {
    #[derive(serde::Deserialize)]
    struct Row {
        entry: Box<serde_json::value::RawValue>,
        previous: String,
        hash: String,
    }
    #[derive(serde::Deserialize)]
    struct Export {
        rows: Vec<Row>,
        seal: String,
    }
    let server = TestServer::memory().await;
    let browser = Browser::admin(&server).await;
    let definition = server.echo().await;
    for order in ["=1+1", "\"quoted\", with a comma", "line\nfeed"] {
        let run = server.start(&definition, json!({ "order": order })).await;
        server.end(&run).await;
    }
    let export = browser.get("/console/evidence/export?format=json").await;
    let export: Export = serde_json::from_slice(&export.bytes).unwrap();
    let of_json: Vec<_> =
        export.rows.into_iter().map(|row| (row.entry.get().to_owned(), row.previous, row.hash)).collect();
    let csv = cells(&browser.get("/console/evidence/export?format=csv").await.text());
    let place = |name: &str| csv[0].iter().position(|it| it == name).unwrap();
    let (entry, previous, hash) = (place("entry"), place("previous"), place("hash"));
    let of_csv: Vec<_> =
        csv[1..].iter().map(|row| (row[entry].clone(), row[previous].clone(), row[hash].clone())).collect();
    assert_eq!(of_csv, of_json, "both say the same");
    assert_eq!(audit(&of_csv), Ok(export.seal));
    let text = browser.get("/console/evidence/export?format=csv").await.text();
    assert_eq!(check_with_python(&text), Ok(format!("whole; seal: {}", audit(&of_csv).unwrap())));
    let tampered = text.replacen("\"\"happened\"\":1", "\"\"happened\"\":0", 1);
    assert_ne!(tampered, text);
    assert!(check_with_python(&tampered).unwrap_err().contains("row 1 was changed"));
    let mut without = of_csv.clone();
    without.remove(1);
    assert_eq!(audit(&without), Err(1));
    let mut changed = of_csv.clone();
    changed[2].0 = changed[2].0.replacen("\"happened\":1", "\"happened\":0", 1);
    assert_ne!(changed, of_csv);
    assert_eq!(audit(&changed), Err(2));
}

/// S2.42: replays, conflicts, effects that happened twice, the age of the oldest key, the outbox.
#[tokio::test]
async fn whoever_watches_the_installation_sees_replays_conflicts_duplicates_retention_and_the_outbox() {
    let server = TestServer::memory().await;
    let definition = server.echo().await;
    for (order, expected) in [(1, 201), (1, 201), (2, 422)] {
        let asked = json!({ "definitionId": definition, "input": { "order": order } });
        let answer = server.post("/api/v1/workflow-runs", &asked, &[("idempotency-key", "k-1")]).await;
        assert_eq!(answer.status, expected, "{}", answer.text());
    }
    let key = server.key("hapax-installation", Role::Viewer).await;
    let watcher = Browser::signed_in(&server, &key).await;
    let page = watcher.page("/console/evidence").await;
    let figure = |name: &str| {
        let after = page.split(&format!("<span class=\"name\">{name}</span><span class=\"figure\">")).nth(1);
        after.unwrap_or_else(|| panic!("{name} is missing: {page}")).split('<').next().unwrap().to_owned()
    };
    assert_eq!((figure("Requests replayed"), figure("Key conflicts")), ("1".into(), "1".into()));
    assert_eq!((figure("Happened twice"), figure("May have happened twice")), ("0".into(), "0".into()));
    for name in ["Outbox depth", "Writes fenced", "Janitor releases"] {
        assert!(figure(name).parse::<u64>().is_ok(), "{name}: {}", figure(name));
    }
    assert_eq!(figure("Oldest in the outbox"), "0 ms");
    assert!(figure("Oldest live request key").ends_with('s'), "{}", figure("Oldest live request key"));
    let credential = format!("cred_{}", server.admin.split('_').nth(1).unwrap());
    let row = page.split(&credential).nth(1).expect("who used keys is listed");
    assert!(row.split("</tr>").next().unwrap().contains("100 %"), "replays stand out: {row}");
    let member = Browser::admin(&server).await.page("/console/evidence").await;
    assert!(!member.contains("The whole server"), "figures of all workspaces are for the installation");
}

/// Each number of the evidence leads to as many rows as it says.
#[tokio::test]
async fn each_number_of_the_evidence_leads_to_its_rows() {
    let server = TestServer::memory().await;
    let provider = Provider::start().await;
    let document = |name: &str, effect: &str, path: &str| {
        json!({ "name": name, "version": 1, "steps": [{
            "name": "charge", "type": "http", "method": "POST", "url": provider.url(path), "body": {}, "effect": effect, "timeout": "1s",
            "retry": { "maxAttempts": 2, "first": "1ms", "cap": "1ms" },
        }] })
    };
    // Sent twice under one key, to a provider that honours it; and once, with an unknown outcome.
    let again = server.start(&server.upload(&document("again", "idempotent", "/cut")).await, json!({})).await;
    server.end(&again).await;
    server.start(&server.upload(&document("once", "claimed", "/cut")).await, json!({})).await;
    server
        .until_shown("/api/v1/doubts", |page| page["items"].as_array().is_some_and(|items| !items.is_empty()))
        .await;
    let browser = Browser::admin(&server).await;
    let page = browser.page("/console/evidence").await;
    let mut followed = 0;
    for tile in
        page.split("<a class=\"").skip(1).filter(|it| it.starts_with("verdict") || it.starts_with("tile"))
    {
        let between =
            |from: &str, to: &str| tile.split(from).nth(1).unwrap().split(to).next().unwrap().to_owned();
        let (path, figure) =
            (between("href=\"", "\"").replace("&amp;", "&"), between("class=\"figure\">", "<"));
        let name = between("class=\"name\">", "<");
        if !path.starts_with("/console/ledger") || name == "Attempts beyond the first" {
            continue;
        }
        let rows = browser.page(&path).await;
        let body = rows.split("<main").nth(1).unwrap();
        let count = body.matches("<details class=\"more\">").count();
        assert_eq!(count.to_string(), figure, "{name} at {path}: {body}");
        followed += 1;
    }
    assert!(followed >= 8, "{followed}: {page}");
    let again = browser.page("/console/ledger?only=again").await;
    assert!(again.contains("again@1") || again.contains(":charge"), "{again}");
    assert!(page.contains("href=\"/console/ledger?only=again\""), "{page}");
}

#[tokio::test]
async fn an_open_page_is_told_when_its_run_moves() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "ask", "version": 1, "steps": [{ "name": "answer", "type": "signal", "signal": "answer" }] });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.until(&run, "WAITING").await;
    let browser = Browser::admin(&server).await;
    let page = browser.page(&format!("/console/runs/{run}")).await;
    let live = page.split("data-live=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let cookie = browser
        .cookies()
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join("; ");
    let mut stream =
        server.http.get(format!("{}{live}", server.url)).header("cookie", cookie).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let signal =
        server.post(&format!("/api/v1/workflow-runs/{run}/signals"), &json!({ "name": "answer" }), &[]).await;
    assert!(signal.status < 300);
    let told = async {
        let mut text = String::new();
        while let Some(chunk) = stream.chunk().await.unwrap() {
            text.push_str(&String::from_utf8_lossy(&chunk));
            if text.contains("event: moved") {
                return;
            }
        }
        panic!("the stream ended: {text}");
    };
    tokio::time::timeout(super::support::PATIENCE, told).await.expect("it is told");
    let ended = server.until(&run, "COMPLETED").await;
    assert_eq!(ended["run"]["status"], "COMPLETED");
    assert!(
        !browser.page(&format!("/console/runs/{run}")).await.contains("data-live"),
        "an ended run moves no more"
    );
}
