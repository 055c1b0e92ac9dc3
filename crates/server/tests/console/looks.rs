//! Every page in a real browser, for every role, wide and narrow, light and dark: nothing is wider than the window, lies over
//! something else, breaks a rule of axe-core, or runs what others stored; and it looks as it did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::entities::invoice_fixture::{begin_closing, make, with_invoice};
use super::support::{Provider, Role, TestServer};
use super::webdriver::{BrowserSettings, Chromium, GRID_HEIGHT, GRID_WIDTH, axe};

const EVIL: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>";
/// How far a part of the window may be from its reference, of 255: letters and numbers change, layout does not.
const FAR: i32 = 48;
/// How far the window as a whole may be.
const FAR_AS_A_WHOLE: f64 = 6.0;

/// A server with something on every page, wherever it can be with texts that should never run; answers the pages by name.
async fn with_everything() -> (TestServer, Vec<(String, String)>) {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    let provider = Provider::start().await;
    begin_closing(&server, &gate).await;
    let document = json!({ "name": "order", "version": 1, "description": EVIL, "steps": [
        { "name": "say", "type": "task", "task": "echo", "input": { "said": "{{ input }}" } },
        { "name": "packed", "type": "promise", "key": "packed:{{ input.order }}", "timeout": "3d" },
    ], "input": { "type": "object", "properties": { "order": { "type": "string", "title": EVIL }, "kind": { "enum": ["a", "b"] } } } });
    let order = server.upload(&document).await;
    let evil_subject = "<script>alert(3)</script>";
    let asked = json!({ "definitionId": order, "input": { "order": EVIL, EVIL: 9007199254740993_i64 }, "subject": evil_subject, "idempotencyKey": "k<script>" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.until(&run, "WAITING").await;
    let conflict =
        json!({ "definitionId": order, "input": { "order": "another" }, "idempotencyKey": "k<script>" });
    assert_eq!(server.post("/api/v1/workflow-runs", &conflict, &[]).await.status, 422);
    let asks = json!({ "name": "ask", "version": 1, "steps": [
        { "name": "decide", "type": "approval", "show": { "note": "{{ input.note }}" }, "decisions": ["approve", "edit", "reject"], "fields": ["amount"] },
    ] });
    let asks = server.upload(&asks).await;
    let asking = server.start(&asks, json!({ "note": EVIL })).await;
    server.until(&asking, "WAITING").await;
    let broken = server.upload(&json!({ "name": "broken", "version": 1, "steps": [{ "name": "break", "type": "task", "task": "fail" }] })).await;
    let failed = server.start(&broken, json!({ "text": EVIL })).await;
    server.end(&failed).await;
    let wire = json!({ "name": "wire", "version": 1, "steps": [{
        "name": "send", "type": "http", "method": "POST", "url": provider.url("/cut"), "body": {}, "effect": "claimed",
    }] });
    let wire = server.upload(&wire).await;
    let doubtful = server.start(&wire, json!({})).await;
    let has_items = |page: &Value| page["items"].as_array().is_some_and(|items| !items.is_empty());
    server.until_shown("/api/v1/doubts", has_items).await;
    let note = json!({ "text": EVIL, "by": "<i>Eve" });
    for path in
        [format!("/api/v1/workflow-runs/{run}/notes"), "/api/v1/entities/invoice/inv-1/notes".to_owned()]
    {
        let noted = server.post(&path, &json!({ "text": EVIL }), &[]).await;
        assert_eq!(noted.status, 201, "{}", noted.text());
    }
    make(&server, "invoice", "<b>\"x", "approved").await;
    server.post("/api/v1/entities/invoice/%3Cb%3E%22x/notes", &note, &[]).await;
    let source = json!({
        "name": "shop", "description": EVIL, "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "missing", "input": {} } }, { "settle": { "key": "early:{{ body.id }}", "value": "{{ body }}" } }],
    });
    let source = server.post("/api/v1/webhook-sources", &source, &[]).await;
    assert_eq!(source.status, 201, "{}", source.text());
    let inbound = source.json()["path"].as_str().unwrap().to_owned();
    let body = json!({ "id": "evt<b>1", "note": EVIL }).to_string();
    server.send("POST", &inbound, Some(body), "", &[]).await;
    server.until_shown("/api/v1/webhook-events", has_items).await;
    let subscription = json!({ "name": "books<b>", "url": provider.url("/fail"), "events": ["run.failed"] });
    let subscription = server.post("/api/v1/webhook-subscriptions", &subscription, &[]).await;
    assert_eq!(subscription.status, 201, "{}", subscription.text());
    let subscription = subscription.json();
    let subscription =
        subscription["subscription"]["id"].as_str().or(subscription["id"].as_str()).unwrap().to_owned();
    let again = server.start(&broken, json!({ "again": true })).await;
    server.end(&again).await;
    let operations = server.get("/api/v1/operations").await.json();
    let operation = operations["items"][0]["id"].as_str().unwrap().to_owned();
    let pages = [
        ("evidence", "/console/evidence".to_owned()),
        ("runs", "/console/runs".to_owned()),
        ("run", format!("/console/runs/{run}")),
        ("run-failed", format!("/console/runs/{failed}")),
        ("run-effects", format!("/console/runs/{run}?tab=effects")),
        ("run-history", format!("/console/runs/{run}?tab=history")),
        ("run-notes", format!("/console/runs/{run}?tab=notes")),
        ("run-retry", format!("/console/runs/{failed}/retry")),
        ("search", "/console/search?q=%3Cscript%3Ealert(3)%3C%2Fscript%3E".to_owned()),
        ("search-nothing", "/console/search?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E".to_owned()),
        ("entities", "/console/entities".to_owned()),
        ("entities-of-type", "/console/entities/invoice".to_owned()),
        ("desk", "/console/entities/invoice/inv-1".to_owned()),
        ("desk-evil", "/console/entities/invoice/%3Cb%3E%22x".to_owned()),
        ("operation", format!("/console/operations/{operation}")),
        ("doubts", "/console/doubts".to_owned()),
        ("doubt", format!("/console/doubts/{doubtful}/send")),
        ("approvals", "/console/approvals".to_owned()),
        ("ledger", "/console/ledger".to_owned()),
        ("ledger-entered", "/console/ledger?only=entered&provider=127.0.0.1".to_owned()),
        ("keys", "/console/keys?key=k%3Cscript%3E".to_owned()),
        ("key", "/console/keys/run/k%3Cscript%3E".to_owned()),
        ("webhooks", "/console/webhooks".to_owned()),
        ("webhook-event", "/console/webhooks/events/shop/evt%3Cb%3E1".to_owned()),
        ("early-settlements", "/console/webhooks/early".to_owned()),
        ("sources", "/console/webhooks/sources".to_owned()),
        ("source", "/console/webhooks/sources/shop".to_owned()),
        ("deliveries", "/console/webhooks/deliveries".to_owned()),
        ("subscriptions", "/console/webhooks/subscriptions".to_owned()),
        ("subscription", format!("/console/webhooks/subscriptions/{subscription}")),
        ("workflows", "/console/workflows".to_owned()),
        ("definition", format!("/console/workflows/definitions/{order}")),
        ("start", format!("/console/workflows/definitions/{order}/start")),
        ("entity-workflows", "/console/workflows/entities".to_owned()),
        ("entity-workflow", "/console/workflows/entities/billing-flow".to_owned()),
        ("workers", "/console/workflows/workers".to_owned()),
        ("admin", "/console/admin".to_owned()),
        ("nodes", "/console/admin/nodes".to_owned()),
        ("audit", "/console/admin/audit".to_owned()),
        ("roles", "/console/admin/roles".to_owned()),
        ("sessions", "/console/sessions".to_owned()),
        ("nothing-here", "/console/nothing".to_owned()),
    ];
    (server, pages.map(|(name, path)| (name.to_owned(), path)).into())
}

/// Pages for admins alone.
fn of_admins() -> Vec<(String, String)> {
    vec![("credentials".into(), "/console/admin/credentials".into())]
}

/// Says what lies over something else, is cut without a sign, or sticks out of the window.
const MISPLACED: &str = "
  const found = [];
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`the page is ${wide} pixels wider than the window`);
  const shown = (it) => { const box = it.getBoundingClientRect(); return box.width > 1 && box.height > 1 && it.checkVisibility(); };
  const pressable = [...document.querySelectorAll('main a, main button, main input, main select, main textarea, main summary')].filter(shown)
    .filter((it) => !it.closest('svg') && getComputedStyle(it).position !== 'absolute');
  const boxes = pressable.map((it) => [it, it.getBoundingClientRect()]);
  for (let one = 0; one < boxes.length; one += 1) {
    const [first, a] = boxes[one];
    for (let other = one + 1; other < boxes.length; other += 1) {
      const [second, b] = boxes[other];
      if (first.contains(second) || second.contains(first)) continue;
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 2 && y > 2) found.push(`${first.outerHTML.slice(0, 90)} lies over ${second.outerHTML.slice(0, 90)}`);
    }
  }
  for (const it of document.querySelectorAll('h1, h2, button, .button, .badge, .tag, .figure')) {
    if (shown(it) && it.scrollWidth > it.clientWidth + 2 && getComputedStyle(it).overflowX === 'hidden') found.push(`cut: ${it.outerHTML.slice(0, 120)}`);
    const box = it.getBoundingClientRect();
    if (shown(it) && !it.closest('.table, .diagram, .flow, .tabs, pre') && box.right > innerWidth + 1) found.push(`sticks out: ${it.outerHTML.slice(0, 120)}`);
  }
  return found;";

const JUDGE: &str = "const done = arguments[arguments.length - 1]; axe.run({ resultTypes: ['violations'] }).then(result => done(result.violations.map(it => \
                     it.id + ': ' + it.nodes.map(node => node.target + ' ' + node.failureSummary).join('; '))));";

/// Looks at the pages as one role; answers how each looks if it is to be compared.
async fn judge(look: BrowserSettings, role: Role, keeps: bool) {
    let (server, mut pages) = with_everything().await;
    if role == Role::Admin {
        pages.extend(of_admins());
    }
    let axe = axe();
    let page = Chromium::start(look).await;
    page.sign_in(&server.url, &server.key("acme", role).await, "/console/runs").await;
    let (mut wrong, mut looks) = (Vec::new(), BTreeMap::new());
    for (name, path) in &pages {
        page.open(&format!("{}{path}", server.url)).await;
        for found in page.run(MISPLACED).await.as_array().unwrap() {
            wrong.push(format!("{name}: {found}"));
        }
        if let Some(axe) = &axe {
            page.run(axe).await;
            for found in page.run_until_done(JUDGE).await.as_array().unwrap() {
                wrong.push(format!("{name}: {found}"));
            }
        }
        if keeps {
            page.run("scrollTo(0, 0)").await;
            looks.insert(name.clone(), page.look().await);
            page.keep_picture(&format!("{name}-{}-{}", look.width, look.theme)).await;
        }
    }
    // A page that is not there is a complaint of the browser, and meant.
    let complaints = page.complaints().await.into_iter().filter(|it| !it.contains("/console/nothing"));
    wrong.extend(complaints);
    assert!(wrong.is_empty(), "{} {}:\n{}", role.as_str(), look.theme, wrong.join("\n"));
    if keeps {
        compare(look, &looks);
    }
}

/// Holds how the pages look against the references in `looks-WIDTH-THEME.json`. `HAPAX_UPDATE=1` writes them.
fn compare(look: BrowserSettings, looks: &BTreeMap<String, Vec<u8>>) {
    let file = format!("tests/console/looks-{}-{}.json", look.width, look.theme);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let hex = |grid: &[u8]| grid.iter().map(|it| format!("{it:02x}")).collect::<String>();
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        let shown: BTreeMap<&String, String> = looks.iter().map(|(name, grid)| (name, hex(grid))).collect();
        std::fs::write(&file, serde_json::to_string_pretty(&shown).unwrap() + "\n").unwrap();
        return;
    }
    let kept: BTreeMap<String, String> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (name, grid) in looks {
        let Some(kept) = kept.get(name) else {
            wrong.push(format!("{name} has no reference"));
            continue;
        };
        let kept: Vec<i32> = (0..kept.len() / 2)
            .map(|place| i32::from_str_radix(&kept[place * 2..place * 2 + 2], 16).unwrap())
            .collect();
        assert_eq!(kept.len(), GRID_WIDTH * GRID_HEIGHT, "{name}");
        let far: Vec<i32> =
            grid.iter().zip(&kept).map(|(now, then)| (i32::from(*now) - then).abs()).collect();
        let mean = f64::from(far.iter().sum::<i32>()) / far.len() as f64;
        let most = far.iter().max().copied().unwrap_or(0);
        println!("{name}: {mean:.1} as a whole, {most} at most");
        if mean > FAR_AS_A_WHOLE || most > FAR {
            wrong.push(format!("{name} looks different: {mean:.1} as a whole, {most} at most"));
        }
    }
    wrong.extend(kept.keys().filter(|name| !looks.contains_key(*name)).map(|name| format!("{name} is gone")));
    assert!(
        wrong.is_empty(),
        "Look at target/console; if it is meant, HAPAX_UPDATE=1 records it:\n{}",
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_page_at_a_desk_is_accessible_in_place_and_looks_as_it_did() {
    judge(BrowserSettings::DESK, Role::Admin, true).await;
}

#[tokio::test]
async fn every_page_on_a_phone_in_the_dark_is_accessible_in_place_and_looks_as_it_did() {
    judge(BrowserSettings { width: 390, height: 844, theme: "dark", scripts: true }, Role::Admin, true).await;
}

#[tokio::test]
async fn every_page_of_a_viewer_is_accessible_and_in_place_at_a_desk_in_the_dark() {
    judge(BrowserSettings { theme: "dark", ..BrowserSettings::DESK }, Role::Viewer, false).await;
}

#[tokio::test]
async fn every_page_of_an_operator_is_accessible_and_in_place_on_a_phone() {
    judge(BrowserSettings { width: 390, height: 844, ..BrowserSettings::DESK }, Role::Operator, false).await;
}

#[tokio::test]
async fn every_page_of_a_manager_is_accessible_and_in_place_at_a_desk() {
    judge(BrowserSettings::DESK, Role::Manager, false).await;
}
