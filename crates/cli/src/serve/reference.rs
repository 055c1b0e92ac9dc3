//! The reference of all settings, generated from the command line.

use clap::{Arg, Args, Command};

use super::settings::ServeOptions;

/// Variables of OpenTelemetry's specification; `crates/server/src/otlp/settings.rs` reads them.
const OF_OPENTELEMETRY: &[(&str, &str)] = &[
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "Receiver of spans, by OTLP over HTTP; `/v1/traces` is appended. If absent, no spans are sent",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "The same without `/v1/traces`; takes precedence"),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Headers to send, as `name=value,name=value`; `OTEL_EXPORTER_OTLP_TRACES_HEADERS` takes precedence",
    ),
    (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "Only `http/protobuf`, which is the default; `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` takes precedence",
    ),
    ("OTEL_SERVICE_NAME", "Service name of the spans [default: hapax]"),
    ("OTEL_SDK_DISABLED", "`true`: no spans are sent, whatever the other variables say"),
];

/// `docs/configuration.md`.
fn render() -> String {
    let command = ServeOptions::augment_args(Command::new("serve"));
    let mut page = String::from(
        "# Configuration\n\n\
         <!-- made from the command line's own description: HAPAX_UPDATE=1 cargo test -p hapax-cli reference -->\n\n\
         Every setting of `hapax serve`. Flags override environment variables, variables override the configuration file, and the\n\
         file overrides the defaults. The file is the one in `--config`, or else `hapax.toml` in the working directory if it\n\
         exists; standard error names it. It is TOML, with the names below as keys. An unknown key, a wrong type or an impossible\n\
         value is an error with its line or name, before anything is opened. A variable that is set but empty counts as set. Do\n\
         not put a password on the command line, where every user of the machine can see it: give the URL of the store in\n\
         `HAPAX_STORE` or in the file. Durations are written `500ms`, `30s`, `5m`, `24h`, `7d`, `1h30m`.\n\n\
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
         Requests of documents and webhooks may go to public addresses, to the destinations in `allow` (for all workspaces), and\n\
         to the destinations in `workspace-allow` (for one workspace), such as `acme:10.8.0.0/16`. The addresses of the server\n\
         and of its database are always closed; the name of the database is resolved when the server starts.\n\n\
         ## Identity providers\n\n\
         People sign in to the console with OpenID Connect, and programs send tokens of the same providers to the API. The file\n\
         in `identity-providers` says whom to trust. It is read when the server starts:\n\n\
         ```toml\n\
         # Address of the server as browsers reach it. Register it at the provider with /console/sign-in/callback after it.\n\
         public-url = \"https://hapax.example.com\"\n\n\
         [[provider]]\n\
         name = \"corp\"                             # part of addresses\n\
         label = \"Corp\"                            # text of the button\n\
         issuer = \"https://login.example.com/realms/corp\"\n\
         client-id = \"hapax\"\n\
         client-secret-file = \"hapax-client-secret\" # beside this file; without it, PKCE alone\n\
         audiences = [\"hapax-api\"]                # of access tokens; without any, tokens do not open the API\n\
         scopes = [\"openid\", \"profile\", \"email\"] # the default\n\
         name-claim = \"email\"                      # the default; name for the audit log\n\
         role-claim = \"groups\"                     # the default; `realm_access.roles` leads into an object\n\n\
         [[provider.rule]]                         # the first rule that fits decides\n\
         value = \"hapax-leads\"\n\
         workspace = \"acme\"\n\
         role = \"manager\"\n\n\
         [[provider.rule]]\n\
         value = \"support\"\n\
         workspace = \"acme\"\n\
         role = \"operator\"\n\
         requester = \"admin\"                       # for approvals and entity workflows that name people\n\
         payloads = false                          # sees no inputs, outputs and other payloads\n\
         ```\n\n\
         Issuer and public address are https, except on this machine. Somebody whom no rule names is told so, and the audit log\n\
         of the installation has the attempt. A person belongs to one workspace for each provider; for a second workspace, name\n\
         the same issuer again with another client and another audience. [security.md](security.md#people) says what counts.\n\n\
         ## Secrets\n\n\
         A secret belongs to one workspace. `secret://bank-key` in a document of the workspace `acme` is looked up in this order:\n\n\
         1. the variable `HAPAX_SECRET_ACME__BANK_KEY`: workspace and name in capitals, joined by `__`, with `-` and `.` as `_`;\n\
         2. the file `acme/bank-key` in `secrets-dir`;\n\
         3. what `secrets-command acme bank-key` prints;\n\
         4. the variable `HAPAX_SECRET__SHARED__BANK_KEY`;\n\
         5. the file `_shared/bank-key` in `secrets-dir`;\n\
         6. what `secrets-command _shared bank-key` prints.\n\n\
         Every workspace may use the secrets under `_shared`. Variables work for workspaces whose names are made of lower-case\n\
         letters, digits and single hyphens, so that no two of them share one; other workspaces need files. A line end at the end\n\
         of a file is dropped. A file that other users of the machine can read causes a warning. `hapax dev` looks in `secrets/`\n\
         in its folder; its workspace is `dev`.\n\n\
         The command is the way to a vault or a KMS. It prints the secret and exits with 0, or exits with 3 if there is none of this\n\
         name. Any other end, and more than 10 seconds, makes the step try again later. A secret is used for 30 seconds before the\n\
         command is asked again. What it writes to standard error goes to the log of the server. For Vault, it is a script with\n\
         the line `vault kv get -field=value \"hapax/$1/$2\" || exit 3`.\n\n\
         Bind a secret to its destinations, so that a document can send it nowhere else: put them into the file\n\
         `acme/bank-key.destinations`, one per line, or into the variable `HAPAX_DESTINATIONS_ACME__BANK_KEY`, separated by\n\
         commas. A destination is `api.example.com`, `*.example.com` or `https://api.example.com:8443/v1`: https unless it says\n\
         http, and all paths below the given one. A step that would send the secret elsewhere fails with\n\
         `secret_not_for_destination` before anything is sent. A secret without destinations may be sent anywhere, and the\n\
         server warns about it; with `bound-secrets-only` it is sent nowhere. Uploads that name secrets need the role admin, and the audit log lists the names.\n\n\
         ## Logs and traces\n\n\
         Only flags and environment variables set these. [operations.md](operations.md#logs) explains them.\n\n\
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
