//! The diagrams in ARCHITECTURE.md are drawn from the transition tables.

use std::path::Path;

use hapax_engine::model::{draw_run_lifecycle, draw_step_lifecycle};

/// Compares the text between the marker and its end, or rewrites it with `HAPAX_UPDATE=1`.
fn holds(mark: &str, diagram: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {mark}: generated, see crates/engine/tests/engine/architecture.rs -->\n");
    let start =
        text.find(&begin).unwrap_or_else(|| panic!("ARCHITECTURE.md has no mark {mark:?}")) + begin.len();
    let end = start + text[start..].find("<!-- end -->").expect("the mark is closed");
    let expected = format!("```mermaid\n{diagram}```\n");
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(&path, format!("{}{expected}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[start..end], expected, "run this test with HAPAX_UPDATE=1 and commit ARCHITECTURE.md");
}

#[test]
fn the_lifecycles_in_architecture_md_are_the_tables_of_the_model() {
    holds("run lifecycle", &draw_run_lifecycle());
    holds("step lifecycle", &draw_step_lifecycle());
}
