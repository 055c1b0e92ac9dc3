//! The reference of all settings, made from what the command line says of them.

use clap::{Arg, Args, Command, CommandFactory};

use super::settings::ServeOptions;
use crate::arguments::Arguments;

/// Heeded as the specification of OpenTelemetry says; `crates/server/src/otlp/settings.rs` reads them.
const OF_OPENTELEMETRY: &[(&str, &str)] = &[
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "Where spans go, by OTLP over HTTP; nowhere if it is absent. `/v1/traces` is added to it",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "The same, as it is; goes before it"),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Headers that go along, as `name=value,name=value`; `OTEL_EXPORTER_OTLP_TRACES_HEADERS` goes before it",
    ),
    (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "Nothing but `http/protobuf`, which needs not be said; `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` goes before it",
    ),
    ("OTEL_SERVICE_NAME", "As whom [default: hapax]"),
    ("OTEL_SDK_DISABLED", "`true`: spans go nowhere, whatever else is said"),
];

/// `docs/configuration.md`.
fn render() -> String {
    let command = ServeOptions::augment_args(Command::new("serve"));
    let mut page = String::from(
        "# Configuration\n\n\
         <!-- made from the command line's own description: HAPAX_UPDATE=1 cargo test -p hapax-cli reference -->\n\n\
         Every setting of `hapax serve`. Flags go before the environment, the environment before the configuration file, the file before the\n\
         defaults. The file is TOML, with the names below as keys; an unknown key, a wrong type or a value that cannot work is refused with its\n\
         line or its name before anything is opened. A variable that is set but empty counts as given. Spans of time are written `500ms`, `30s`,\n\
         `5m`, `24h`, `7d`, `1h30m`.\n\n\
         ```toml\n\
         store = \"postgres://hapax@db.internal/hapax?sslmode=verify-full\"\n\
         listen = \"0.0.0.0:7171\"\n\
         tls-cert = \"/etc/hapax/chain.pem\"\n\
         tls-key = \"/etc/hapax/key.pem\"\n\
         allow = [\"10.8.0.0/16\", \"billing.internal:8443\"]\n\
         key-retention = \"7d\"\n\
         ```\n\n\
         | name | flag | environment | what it does |\n|---|---|---|---|\n",
    );
    for argument in command.get_arguments() {
        let name = argument.get_long().filter(|long| *long != "config");
        let name = name.map(|long| format!("`{long}`")).unwrap_or_default();
        page.push_str(&format!("| {name} {}", row(argument)));
    }
    page.push_str(
        "\nSecrets that documents name as `secret://NAME` come from `HAPAX_SECRET_<NAME>` (in capitals, `-` and `.` as `_`) or from a file of that name in\n\
         `secrets-dir`.\n\n\
         ## Logs and traces\n\n\
         These are said by flag or in the environment only. [operations.md](operations.md#logs) tells what they are about.\n\n\
         | flag | environment | what it does |\n|---|---|---|\n",
    );
    let all = Arguments::command();
    let of_logs = |argument: &&Arg| argument.get_long().is_some_and(|long| long.starts_with("log"));
    all.get_arguments().filter(of_logs).for_each(|argument| page.push_str(&row(argument)));
    for (variable, says) in OF_OPENTELEMETRY {
        page.push_str(&format!("| | `{variable}` | {says} |\n"));
    }
    page
}

/// Flag, variable, and what they do.
fn row(argument: &Arg) -> String {
    let long = argument.get_long().expect("every setting has a flag");
    let value = argument.get_value_names().and_then(|names| names.first());
    let flag = match value {
        Some(value) => format!("`--{long} {value}`"),
        None => format!("`--{long}`"),
    };
    let variable = argument.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| {flag} | {variable} | {} |\n", help.replace('|', "\\|"))
}

#[test]
fn the_reference_says_what_the_command_line_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = render();
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/configuration.md is not up to date: HAPAX_UPDATE=1 cargo test -p hapax-cli reference"
    );
}
