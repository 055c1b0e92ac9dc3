//! The values in docs/limits.md match the constants it names.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

#[test]
fn every_limit_on_the_page_is_the_one_in_the_code() {
    let page = fs::read_to_string(root().join("docs/limits.md")).expect("the page is there");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.contains(" of `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        let [name, package] = names[..] else { panic!("a constant and its crate: {line}") };
        seen += 1;
        let source = root().join("crates").join(package).join("src/limits.rs");
        let source = fs::read_to_string(source).unwrap_or_else(|error| panic!("{package}: {error}"));
        let actual = read_constants(&source).get(name).copied();
        let shown = read_value(cells[1]);
        if actual.is_none() || shown != actual {
            wrong.push(format!("{name} of {package} is {actual:?}, the page says {}", cells[1]));
        }
    }
    assert!(seen >= 40, "only {seen} limits were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn values_and_constants_are_read_alike() {
    let source = "pub const A: usize = 2 * 1_024;\npub(crate) const B: Duration = Duration::from_secs(10 * 60);\n\
                  const C: Duration = Duration::from_millis(500);\npub const D: u64 = 3 + A;\n";
    let constants = read_constants(source);
    assert_eq!(constants["A"], 2_048_000);
    assert_eq!(constants["D"], 2_051_000);
    assert_eq!(read_value("2 KiB"), Some(constants["A"]));
    assert_eq!(read_value("10 min"), Some(constants["B"]));
    assert_eq!(read_value("500 ms"), Some(constants["C"]));
    assert_eq!(read_value("1,000 runs"), Some(1_000_000));
}

/// Constants in thousandths: of a second, of a byte, of a piece.
fn read_constants(source: &str) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    for statement in source.lines().filter_map(|line| line.split("const ").nth(1)) {
        let Some((name, rest)) = statement.split_once(':') else { continue };
        let Some((_, expression)) = rest.split_once(" = ") else { continue };
        if let Some(value) = evaluate(expression.trim_end_matches(';'), &found) {
            found.insert(name.to_owned(), value);
        }
    }
    found
}

fn evaluate(expression: &str, known: &HashMap<String, u64>) -> Option<u64> {
    for (call, factor) in [("Duration::from_secs(", 1_000), ("Duration::from_millis(", 1)] {
        if let Some(inner) = expression.strip_prefix(call).and_then(|rest| rest.strip_suffix(')')) {
            return evaluate(inner, known).map(|value| value / 1_000 * factor);
        }
    }
    expression.split(" + ").try_fold(0_u64, |sum, term| {
        let product = term.split(" * ").try_fold(1_000_u64, |product, factor| {
            let number = factor.trim().replace('_', "").parse::<u64>().ok();
            Some(product * number.or_else(|| known.get(factor.trim()).map(|value| value / 1_000))?)
        });
        Some(sum + product?)
    })
}

/// A value such as `2 MiB`, `10 min` or `1,000 runs`, in thousandths.
fn read_value(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: u64 = number.replace(',', "").parse().ok()?;
    let factor = match unit {
        "ms" => 1,
        "min" => 60_000,
        "h" => 3_600_000,
        "days" => 24 * 3_600_000,
        "KiB" => 1_024_000,
        "MiB" => 1_024 * 1_024_000,
        _ => 1_000,
    };
    Some(number * factor)
}
