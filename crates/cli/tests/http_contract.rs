//! Every call in docs/http-contract.md, run as it is written against `hapax dev`.

mod support {
    pub mod dev;
    pub mod page;
}

use support::dev::Dev;
use support::page::{blocks, check_answers};

/// S2.31, S2.32, S0.4 to S0.7, S0.9, S0.13, S0.14 and the rest of the contract, as a caller would try them.
#[test]
fn every_call_of_the_contract_answers_as_the_page_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-contract.md");
    let page = std::fs::read_to_string(page).unwrap();
    let dev = Dev::start();
    let (mut helpers, mut pending, mut tried) = (String::new(), None, 0);
    for (fence, body) in blocks(&page) {
        match fence {
            "sh" if body.contains("() {") => helpers = body,
            "sh" => pending = Some(body),
            "answers" => {
                let script = pending.take().expect("a call stands before its answers");
                let answer = dev.run(&format!("{helpers}\n{script}"));
                check_answers(&body, &script, &answer);
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(tried >= 18, "only {tried} calls were found on the page");
}
