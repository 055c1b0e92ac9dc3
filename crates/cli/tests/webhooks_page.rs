//! Every command in docs/webhooks.md that has answers, run as it is written against `hapax dev`.

use crate::support;

use std::path::Path;
use std::rc::Rc;

use support::dev::Dev;
use support::page::{blocks, check_answers};

/// Secret as shown in Stripe's dashboard.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Issue 6: order run, charge, promise, a signed webhook delivered three times, once early; the run completes once.
#[test]
fn every_command_of_the_page_answers_as_it_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/webhooks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = Rc::new(tempfile::tempdir().unwrap());
    let dev = Dev::start_knowing(folder, &[("HAPAX_SECRET_DEV__STRIPE_WEBHOOK", SECRET)]);
    let program = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap();
    let mut before = format!(
        "export PATH='{}':\"$PATH\" HAPAX_SERVER=\"$URL\" HAPAX_API_KEY=\"$KEY\" SIGNING_SECRET={SECRET}; cd \"$TMP\"\n",
        program.display()
    );
    let (mut pending, mut tried) = (None, 0);
    for (fence, body) in blocks(&page) {
        match fence {
            // A file whose first line is its name.
            "yaml" | "bash" => {
                let name = body.lines().next().and_then(|line| line.strip_prefix("# "));
                let name = name.unwrap_or_else(|| panic!("its first line names its file:\n{body}"));
                before.push_str(&format!("cat > {name} <<'DOCUMENT'\n{body}\nDOCUMENT\n"));
            }
            "sh" => assert!(pending.replace(body).is_none(), "every call has answers"),
            "answers" => {
                let script = pending.take().expect("a call stands before its answers");
                let answer = dev.run(&format!("{before}exec 2>&1\n{script}"));
                check_answers(&body, &script, &answer);
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(pending.is_none(), "every call has answers");
    assert!(tried >= 7, "only {tried} commands were found on the page");
    // The order ran once, however often its webhooks were delivered.
    let runs = dev.call("/api/v1/workflow-runs", "");
    let orders = runs["items"].as_array().unwrap().iter().filter(|run| run["idempotencyKey"] == "order-789");
    assert_eq!(orders.map(|run| run["status"].clone()).collect::<Vec<_>>(), ["COMPLETED"], "{runs}");
}
