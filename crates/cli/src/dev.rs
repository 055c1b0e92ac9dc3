//! `hapax dev`: a local server for development.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hapax::{Actor, Role as Rank, WorkspaceId};
use hapax_api::Role;
use hapax_server::Server;
use hapax_server::credentials::key::ApiKey;
use hapax_server::directory::NewCredential;
use hapax_server::identity::{Acting, Identity};
use hapax_server::uploaded::Uploaded;
use serde::Serialize;

use crate::output;
use crate::serve::assemble::assemble;
use crate::serve::listeners::BoundListeners;
use crate::serve::serve;
use crate::serve::settings::{DEFAULT_LISTEN, ServeOptions, Settings};
use crate::serve::stopping::Stopping;
use crate::stub;

const WORKSPACE: &str = "dev";

const EXAMPLES: &str = "\
Examples:
  hapax dev                                         on http://127.0.0.1:7171, data in .hapax
  hapax dev --stub                                  also a stub payment provider on http://127.0.0.1:7272/stub
  hapax dev --data /tmp/try --listen 127.0.0.1:0 --json   one JSON line on standard output once it is ready

It listens on this machine only, keeps its data in a SQLite file, and lets http steps call this machine. Its key is kept in
the folder as api-key; secret://NAME is read from HAPAX_SECRET_DEV__NAME, or from secrets/dev/NAME in it. For production there is `hapax serve`.";

/// The sample: it takes any object and gives it back, in two durable steps.
const SAMPLE: &str = r#"{
  "name": "sample",
  "version": 1,
  "description": "Takes any object, waits a moment, and gives it back.",
  "steps": [
    { "name": "look", "type": "task", "task": "echo", "input": { "received": "{{ input }}" } },
    { "name": "breathe", "type": "wait", "for": "100ms" },
    { "name": "answer", "type": "task", "task": "echo", "input": { "run": "{{ run.id }}" } }
  ]
}"#;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Folder for the data.
    #[arg(long, value_name = "FOLDER", env = "HAPAX_DATA", default_value = ".hapax")]
    data: PathBuf,
    /// Address to listen on, on this machine. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", env = "HAPAX_LISTEN", default_value = DEFAULT_LISTEN)]
    listen: String,
    /// Modules whose janitors release claims after a crash: NAME, or NAME:EVERY:STALE-AFTER. There is always one called default.
    #[arg(
        long = "modules",
        visible_alias = "module",
        value_name = "MODULES",
        env = "HAPAX_MODULES",
        value_delimiter = ','
    )]
    modules: Option<Vec<String>>,
    /// Also serve the stub payment provider of `hapax stub`, on 127.0.0.1:7272 or this address.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = stub::DEFAULT_LISTEN)]
    stub: Option<String>,
    /// Print one JSON line on standard output once the server is ready, instead of text.
    #[arg(long)]
    json: bool,
}

/// The line for scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    url: String,
    workspace: &'a str,
    api_key: &'a str,
    /// Opens the console, once, signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    console_url: Option<String>,
    sample_definition: &'a str,
    /// Address of the stub provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    stub_url: Option<&'a str>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let said = ServeOptions {
        listen: Some(options.listen.clone()),
        modules: options.modules.clone(),
        ..ServeOptions::default()
    };
    let mut settings = Settings::gather(said)?;
    ensure!(
        settings.listen.ip().is_loopback(),
        "hapax dev listens only on this machine; use `hapax serve` to listen for others"
    );
    settings.is_dev = true;
    settings.secrets_dir = Some(options.data.join("secrets"));
    settings.rules.allow_loopback = true;
    let data = &options.data;
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o700);
    folder.create(data).with_context(|| format!("the folder {} cannot be made", data.display()))?;
    let store = format!("sqlite:{}", data.join("hapax.db").display());
    let stub_url = match &options.stub {
        Some(address) => {
            let (listener, address) = stub::bind(address).await?;
            tokio::spawn(stub::serve(listener));
            Some(format!("http://{address}/stub"))
        }
        None => None,
    };
    let stopping = Stopping::listen()?;
    let bound = BoundListeners::take(&settings)?;
    let starting = async {
        let assembly = assemble(&store, &settings, bound.addresses(), stopping.draining()).await?;
        let key = admin_key(&assembly.server, &data.join("api-key")).await?;
        let sample = upload_sample(&assembly.server).await?;
        Ok((assembly, key, sample))
    };
    let (assembly, key, sample) = stopping.starting(starting).await?;
    let link = assembly.server.console_link(&ApiKey::parse(&key)?)?;
    serve(assembly, bound, &settings, stopping, |address, _| {
        let url = format!("http://{address}");
        let console_url = link.map(|link| format!("{url}{link}"));
        match options.json {
            true => output::print_json_line(&Ready {
                url,
                workspace: WORKSPACE,
                api_key: &key,
                console_url,
                sample_definition: &sample,
                stub_url: stub_url.as_deref(),
            }),
            false => output::print(&welcome(
                &url,
                &key,
                &sample,
                console_url.as_deref(),
                stub_url.as_deref(),
                data,
            )),
        }
    })
    .await
}

/// The key of the folder, if it still counts; else a new one, kept there for the next time.
async fn admin_key(server: &Server, path: &Path) -> Result<String> {
    let workspace = WorkspaceId::new(WORKSPACE)?;
    let by = Actor::new("hapax dev", Rank::Manager);
    server.directory().ensure_workspace(&workspace, None, by.clone()).await?;
    if let Ok(text) = fs::read_to_string(path)
        && let Ok(key) = ApiKey::parse(text.trim_end())
        && let Some(known) = server.directory().find_credential_of(&key).await?
        && known.workspace == workspace
        && known.admits(&key, server.now())
    {
        return Ok(key.reveal().to_owned());
    }
    let new = NewCredential::new("hapax dev", Role::Admin);
    let (_, key) = server.directory().create_credential(&workspace, new, by).await?;
    let _ = fs::remove_file(path);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{}", key.reveal()));
    written.with_context(|| format!("the key cannot be kept in {}", path.display()))?;
    Ok(key.reveal().to_owned())
}

async fn upload_sample(server: &Server) -> Result<String> {
    let identity = Identity {
        workspace: WorkspaceId::new(WORKSPACE)?,
        credential: hapax::model::Name::new("credential id", "hapax-dev")?,
        name: "hapax dev".into(),
        role: Role::Admin,
        requester: None,
        sees_payloads: true,
        may_offer: None,
        person: None,
        acts_for: None,
        ends_at: None,
    };
    let (definition, _) =
        server.definitions().upload(&Acting::locally(identity), Uploaded::json(SAMPLE)).await?;
    Ok(definition.id)
}

fn welcome(
    url: &str,
    key: &str,
    sample: &str,
    console_url: Option<&str>,
    stub_url: Option<&str>,
    data: &Path,
) -> String {
    let call = |body: &str| {
        format!(
            "curl -s {url}/api/v1/workflow-runs -H 'Authorization: Bearer {key}' \\\n     -H 'Content-Type: application/json' -d '{body}'"
        )
    };
    let body = |order: u32| {
        format!(
            r#"{{"definitionId":"{sample}","input":{{"order":{order}}},"idempotencyKey":"order-{order_key}"}}"#,
            order_key = 789
        )
    };
    let stub =
        stub_url.map(|url| format!("Stub payment provider: POST {url}/charges; every call: {url}/calls\n"));
    let stub = stub.unwrap_or_default();
    let console = console_url.map(|url| format!("Console, signed in (the link counts once): {url}\n\n"));
    let console = console.unwrap_or_default();
    format!(
        "Hapax is ready on {url}  (docs: {url}/docs, data: {})\n\n\
         {console}\
         1. Create a run:\n   {}\n\n\
         2. The same call again is the same run (\"created\": false):\n   {}\n\n\
         3. The same key with another body is rejected (422):\n   {}\n\n\
         For other commands: export HAPAX_SERVER={url} HAPAX_API_KEY={key}\n\
         {stub}Ctrl-C stops it.\n",
        data.display(),
        call(&body(789)),
        call(&body(789)),
        call(&body(790)),
    )
}
