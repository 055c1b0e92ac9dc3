//! Output formats: a table for people, JSON or YAML for programs.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::print;
use super::tables::without_commands;

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// For people.
    Table,
    /// One JSON object; of a list, one a line.
    Json,
    /// YAML; of a list, one document each.
    Yaml,
}

/// Option for the output format.
#[derive(Debug, clap::Args)]
pub(crate) struct ShapeOptions {
    /// Output format.
    #[arg(long = "output", short = 'o', value_enum, default_value_t = Shape::Table, value_name = "FORM")]
    shape: Shape,
    /// Same as -o json.
    #[arg(long, conflicts_with = "shape")]
    json: bool,
}

impl From<Shape> for ShapeOptions {
    fn from(shape: Shape) -> Self {
        ShapeOptions { shape, json: false }
    }
}

impl ShapeOptions {
    pub(crate) fn shape(&self) -> Shape {
        match self.json {
            true => Shape::Json,
            false => self.shape,
        }
    }

    /// Shows one thing; `text` is what people are shown.
    pub(crate) fn show<T: Serialize>(&self, value: &T, text: impl FnOnce() -> String) -> Result<()> {
        match self.shape() {
            Shape::Table => print(&text()),
            Shape::Json => print(&safe(format!("{}\n", serde_json::to_string_pretty(value)?))),
            Shape::Yaml => print(&safe(yaml(value)?)),
        }
    }

    /// Shows a list; `text` is what people are shown.
    pub(crate) fn show_all<T: Serialize>(&self, items: &[T], text: impl FnOnce() -> String) -> Result<()> {
        match self.shape() {
            Shape::Table => print(&text()),
            Shape::Json => {
                items.iter().try_for_each(|item| print(&safe(format!("{}\n", serde_json::to_string(item)?))))
            }
            Shape::Yaml => items.iter().try_for_each(|item| print(&safe(format!("---\n{}", yaml(item)?)))),
        }
    }
}

/// Texts of users stand in JSON as JSON, so they are read before they are written anew.
fn yaml<T: Serialize>(value: &T) -> Result<String> {
    let value = serde_json::to_value(value).context("it cannot be shown as YAML; use -o json")?;
    Ok(super::yaml::document(&value))
}

/// Escapes control characters if standard output is a terminal.
pub(crate) fn safe(text: String) -> String {
    match io::stdout().is_terminal() {
        true => without_commands(&text),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use hapax_api::RawJson;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_users_are_shown_as_what_they_hold() {
        let raw = RawJson::from_text("{ \"b\": [1] }".into()).unwrap();
        assert_eq!(yaml(&json!({"a": raw})).unwrap(), "a:\n  b:\n    - 1\n");
    }
}
