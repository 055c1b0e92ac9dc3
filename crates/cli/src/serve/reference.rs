//! The reference of all settings, made from what the command line says of them.

use clap::{Arg, Args, Command};

use super::settings::ServeOptions;

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
         defaults. The file is the one that `--config` names, or else `hapax.toml` in the working directory if it is there, which is told on\n\
         standard error. It is TOML, with the names below as keys; an unknown key, a wrong type or a value that cannot work is refused with its line or\n\
         its name before anything is opened. A variable that is set but empty counts as given. A password does not belong on the command line,\n\
         where everybody on the machine can see it: give the URL of the store in `HAPAX_STORE` or in the file. Spans of time are written `500ms`,\n\
         `30s`, `5m`, `24h`, `7d`, `1h30m`.\n\n\
         ```toml\n\
         store = \"postgres://hapax@db.internal/hapax?sslmode=verify-full\"\n\
         listen = \"0.0.0.0:7171\"\n\
         tls-cert = \"/etc/hapax/chain.pem\"\n\
         tls-key = \"/etc/hapax/key.pem\"\n\
         allow = [\"10.8.0.0/16\", \"billing.internal:8443\"]\n\
         key-preset = \"money\"\n\
         ```\n\n\
         | name | flag | environment | what it does |\n|---|---|---|---|\n",
    );
    for argument in command.get_arguments() {
        let name = argument.get_long().filter(|long| *long != "config");
        let name = name.map(|long| format!("`{long}`")).unwrap_or_default();
        page.push_str(&format!("| {name} {}", row(argument)));
    }
    page.push_str(
        "\n## Where requests go\n\n\
         Requests of documents and webhooks go to public addresses, to what `allow` opens to all workspaces, and to what `workspace-allow` opens to\n\
         theirs, such as `acme:10.8.0.0/16`. The server's own addresses and those of its database are closed whatever is said; the name of the database\n\
         is looked up when the server starts.\n\n\
         ## Secrets\n\n\
         A secret belongs to one workspace. `secret://bank-key` in a document of the workspace `acme` is looked for in this order:\n\n\
         1. the variable `HAPAX_SECRET_ACME__BANK_KEY`: workspace and name in capitals, with two underscores between them, `-` and `.` as `_`;\n\
         2. the file `acme/bank-key` in `secrets-dir`;\n\
         3. the variable `HAPAX_SECRET__SHARED__BANK_KEY`;\n\
         4. the file `_shared/bank-key` in `secrets-dir`.\n\n\
         What stands under `_shared` every workspace may use. Variables are for workspaces whose names are\n\
         made of lower-case letters, digits and single hyphens, so that no two of them share one; others have files. A line end at the end of a file is\n\
         dropped. A file that others on the machine can read is warned about. `hapax dev` looks in `secrets/` in its folder; its workspace is `dev`.\n\n\
         Bind a secret to its destinations, so that a document can send it nowhere else: put them into the file `acme/bank-key.destinations`, one on\n\
         each line, or into the variable `HAPAX_DESTINATIONS_ACME__BANK_KEY`, with commas. A destination is `api.example.com`, `*.example.com` or\n\
         `https://api.example.com:8443/v1`: https unless it says http, and paths below the given one. A step that would send the secret elsewhere fails with\n\
         `secret_not_for_destination` before anything is sent. A secret without destinations goes wherever documents say, and `hapax serve` warns about it.\n\
         Uploads that name secrets need the role admin, and the audit log lists the names.\n\n\
         ## Logs and traces\n\n\
         These are said by flag or in the environment only. [operations.md](operations.md#logs) tells what they are about.\n\n\
         | flag | environment | what it does |\n|---|---|---|\n",
    );
    let all = crate::arguments::command();
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
