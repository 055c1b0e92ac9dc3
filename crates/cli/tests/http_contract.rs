//! Every call in docs/http-contract.md, run as it is written against `hapax dev`.

mod support {
    pub mod dev;
}

use support::dev::Dev;

/// S2.31, S2.32, S0.4-S0.14 and the rest of the contract, as a caller would try them.
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
                // In order, so that two calls of one block cannot trade places.
                let mut rest = answer.as_str();
                for expected in body.lines() {
                    match rest.find(expected) {
                        Some(at) => rest = &rest[at + expected.len()..],
                        None => panic!("{expected:?} is not in what came of\n{script}\n---\n{answer}"),
                    }
                }
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(tried >= 18, "only {tried} calls were found on the page");
}

fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((fence, body.join("\n")));
        }
    }
    found
}
