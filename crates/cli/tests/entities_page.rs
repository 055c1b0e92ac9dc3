//! Every command in docs/entities.md that has answers, run as it is written against `hapax dev`.

mod support {
    pub mod dev;
}

use std::path::Path;

use support::dev::Dev;

/// S1.19, S1.24-S1.29, S1.46, S2.3, S2.44, S2.46: the invoice of the page, end to end.
#[test]
fn every_command_of_the_page_answers_as_it_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/entities.md");
    let page = std::fs::read_to_string(page).unwrap();
    let dev = Dev::start();
    let folder = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap();
    let mut before = format!(
        "export PATH='{}':\"$PATH\" HAPAX_SERVER=\"$URL\" HAPAX_API_KEY=\"$KEY\"; cd \"$TMP\"\n",
        folder.display()
    );
    let (mut pending, mut tried) = (None, 0);
    for (fence, body) in blocks(&page) {
        match fence {
            // A document whose first line names its file.
            "yaml" => {
                if let Some(name) = body.lines().next().and_then(|line| line.strip_prefix("# ")) {
                    assert!(name.ends_with(".yaml"), "{name}");
                    before.push_str(&format!("cat > {name} <<'DOCUMENT'\n{body}\nDOCUMENT\n"));
                }
            }
            "sh" => pending = Some(body),
            "answers" => {
                let script = pending.take().expect("a call stands before its answers");
                let answer = dev.run(&format!("{before}exec 2>&1\n{script}"));
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
    assert!(tried >= 10, "only {tried} commands were found on the page");
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
