//! Every call in docs/http-contract.md, run as it is written against `hapax dev`.

use crate::support;

use std::path::Path;

use support::dev::Dev;
use support::page::{blocks, check_answers};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("docs/http-contract.md")).unwrap()
}

/// S2.31, S2.32, S0.4 to S0.7, S0.13, S0.14 and the rest of the contract, as a caller would try them. A block that no answers stand under would not be checked,
/// so there is none.
#[test]
fn every_call_of_the_contract_answers_as_the_page_says() {
    let page = page();
    let dev = Dev::start();
    let (mut helpers, mut pending, mut tried) = (String::new(), None, 0);
    for (fence, body) in blocks(&page) {
        assert_eq!(pending.is_some(), fence == "answers", "answers stand right under their call: {body}");
        match fence {
            "sh" if defines_helpers(&body) => helpers = body,
            "sh" => pending = Some(body),
            "answers" => {
                let script = pending.take().expect("a call stands before its answers");
                let statuses = body.lines().filter(|line| is_status(line)).count();
                let calls = script.lines().filter(|line| shows_its_answer(line)).count();
                assert!(statuses >= calls, "{statuses} statuses stand under {calls} calls: {script}");
                let answer = dev.run(&format!("{helpers}\n{script}"));
                check_answers(&body, &script, &answer);
                tried += 1;
            }
            other => panic!("a block of {other} is not checked: {body}"),
        }
    }
    assert!(pending.is_none(), "no answers stand under the last call");
    assert!(tried >= 28, "only {tried} calls were found on the page");
}

/// Tests that stand for clauses without a call are there.
#[test]
fn what_no_call_can_show_is_shown_by_tests_that_exist() {
    let page = page();
    let table = page.split("### Clauses that a call cannot show").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: Vec<&str> = table.unwrap().lines().filter(|line| line.contains("crates/")).collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows {
        let shown_by = row.rsplit(" | ").next().unwrap();
        let (tests, file): (Vec<&str>, Vec<&str>) =
            shown_by.split('`').skip(1).step_by(2).partition(|span| !span.contains('/'));
        let text = std::fs::read_to_string(Path::new(ROOT).join(file[0])).expect(row);
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            assert!(text.contains(&format!("async fn {test}()")), "{} has no {test}", file[0]);
        }
    }
}

/// Is every line of it a function that other blocks call?
fn defines_helpers(script: &str) -> bool {
    script.lines().all(|line| line.contains("() {") && line.ends_with('}'))
}

/// Is it a call whose answer goes to the reader and nowhere else?
fn shows_its_answer(line: &str) -> bool {
    let is_call =
        ["hapax_post ", "hapax_get ", "durable ", "curl "].iter().any(|call| line.starts_with(call));
    is_call && !line.contains(" > ") && !line.contains(" >> ") && !line.contains(" | ")
}

/// Does an answer begin with its status?
fn is_status(line: &str) -> bool {
    line.len() >= 3 && line.bytes().take(3).all(|letter| letter.is_ascii_digit())
}
