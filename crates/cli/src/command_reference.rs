//! Generates the reference of all commands in `docs/cli.md` from the command line.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::exit_codes::EXIT_CODES;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
/// The text above it is written by hand.
const MARK: &str = "<!-- what follows is made from the command line's own description: HAPAX_UPDATE=1 cargo test -p hapax-cli reference -->";

/// The part of the page below the mark.
fn render() -> String {
    let mut hapax = crate::arguments::command();
    // Usages name the whole command, and options of every command are known to each.
    hapax.build();
    let mut page = String::from("\n## Options of every command\n\n");
    table_of(hapax.get_arguments().filter(|argument| argument.is_global_set()), &mut page);
    page.push_str("\n## Commands\n\n| command | does |\n|---|---|\n");
    for command in shown(&hapax) {
        let name = command.get_name();
        _ = writeln!(page, "| [`hapax {name}`](#hapax-{name}) | {} |", about(command));
    }
    for command in shown(&hapax) {
        describe(command, &mut page);
    }
    page.push_str("\n## Exit codes\n\n| code | says |\n|---|---|\n");
    EXIT_CODES.iter().for_each(|(code, says)| _ = writeln!(page, "| {code} | {says} |"));
    page.push_str("\nClosing standard output early, as `| head -1` does, is not a failure.\n");
    page
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn describe(command: &Command, page: &mut String) {
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let depth = name.split(' ').count();
    _ = writeln!(page, "\n{} {name}\n\n{}.", "#".repeat(depth + 1), about(&command));
    if command.has_subcommands() {
        let inner: Vec<&Command> = shown(&command).collect();
        inner.into_iter().for_each(|inner| describe(inner, page));
        return;
    }
    _ = writeln!(page, "\n```text\n{usage}\n```\n");
    if command.get_name() == "serve" {
        page.push_str("[configuration.md](configuration.md) lists its options.\n");
        return;
    }
    table_of(command.get_arguments().filter(|argument| !argument.is_global_set()), page);
}

fn table_of<'a>(arguments: impl Iterator<Item = &'a Arg>, page: &mut String) {
    let is_of_all = |argument: &Arg| matches!(argument.get_id().as_str(), "help" | "version");
    let rows: Vec<String> =
        arguments.filter(|argument| !argument.is_hide_set() && !is_of_all(argument)).map(row).collect();
    if rows.is_empty() {
        page.push_str("It has no options of its own.\n");
        return;
    }
    page.push_str("| option | environment | says |\n|---|---|---|\n");
    page.push_str(&rows.concat());
}

fn row(argument: &Arg) -> String {
    let variable = argument.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
    let mut says = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if takes_value && !values.is_empty() {
        _ = write!(says, ": {}", values.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        _ = write!(says, " [default: {}]", defaults.join(", "));
    }
    format!("| {} | {variable} | {} |\n", spelled(argument), says.trim_end().replace('|', "\\|"))
}

/// `-o, --output FORM`, or the name of what has no dashes.
fn spelled(argument: &Arg) -> String {
    let names = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let value = names.and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
    let dashed = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let dashed: Vec<String> = dashed.into_iter().flatten().collect();
    match dashed.is_empty() {
        true => format!("`{value}`"),
        false => format!("`{}`", [dashed.join(", "), value].join(" ").trim_end()),
    }
}

/// The first sentence of what it is for.
fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.trim_end_matches('.').replace('|', "\\|")
}

#[test]
fn the_reference_of_commands_says_what_the_command_line_says() {
    let kept = std::fs::read_to_string(PAGE).unwrap();
    let (by_hand, below) = kept.split_once(MARK).expect("the mark stands in docs/cli.md");
    let page = render();
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(PAGE, format!("{by_hand}{MARK}\n{page}")).unwrap();
        return;
    }
    assert!(
        below.strip_prefix('\n') == Some(&page),
        "docs/cli.md is not up to date: HAPAX_UPDATE=1 cargo test -p hapax-cli reference"
    );
}
