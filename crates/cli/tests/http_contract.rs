//! The tests that docs/http-contract.md names for clauses without a call. `pages.rs` runs its calls.

use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("docs/http-contract.md")).unwrap()
}

/// Each test that the page names exists.
#[test]
fn clauses_without_a_call_name_tests_that_exist() {
    let page = page();
    let table =
        page.split("### Clauses that a call cannot show").nth(1).and_then(|rest| rest.split("\n## ").next());
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
