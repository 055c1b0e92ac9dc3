//! Every command in docs/entities.md that has answers, run as it is written against `hapax dev`.

use crate::support;

use std::path::Path;

use support::dev::Dev;
use support::page::{blocks, check_answers};

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
                check_answers(&body, &script, &answer);
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(tried >= 10, "only {tried} commands were found on the page");
}
