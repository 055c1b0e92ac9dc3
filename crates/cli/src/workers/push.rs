//! `hapax workers push`: functions that work is sent to.

use anyhow::Result;
use hapax_api::client::Client;
use hapax_api::{CreatePushWorker, DurationText, IssuedPushWorker, PushWorker, WorkerWorkflow};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::say;
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::tables::{self, plain};
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax workers push register order-function https://functions.example/hapax --workflow order@1 --task send-mail
  hapax workers push list
  hapax workers push delete psh_1

docs/push.md shows how to write the function.";

const REGISTER_EXAMPLES: &str = "\
Examples:
  hapax workers push register order-function https://functions.example/hapax --workflow order@1 --task send-mail
  hapax workers push register pay https://functions.example/pay --action ChargeCard --timeout 20s --json | jq -r .secret > secret

The secret is shown once. Give it to the function, which checks with it that a request comes from this server.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Register a function and print its secret, once.
    #[command(after_help = REGISTER_EXAMPLES)]
    Register(RegisterOptions),
    /// List push workers, without their secrets.
    #[command(
        after_help = "Examples:\n  hapax workers push list\n  hapax workers push list --json | jq -r .url"
    )]
    List(ListOptions),
    /// Show one push worker, without its secret.
    #[command(after_help = "Examples:\n  hapax workers push show psh_1 -o yaml")]
    Show(ShowOptions),
    /// Send a function no more work. Its runs wait for another worker.
    #[command(after_help = "Examples:\n  hapax workers push delete psh_1 --yes")]
    Delete(DeleteOptions),
}

#[derive(Debug, clap::Args)]
struct RegisterOptions {
    /// Name for people.
    #[arg(value_parser = word)]
    name: String,
    /// Address of the function.
    #[arg(value_parser = word)]
    url: String,
    /// Workflow that it has the code of: NAME, or NAME@VERSION. May be given several times.
    #[arg(long = "workflow", value_name = "NAME", value_parser = workflow)]
    workflows: Vec<WorkerWorkflow>,
    /// Task that documents can call. May be given several times.
    #[arg(long = "task", value_name = "NAME", value_parser = word)]
    tasks: Vec<String>,
    /// Action of entity workflows. May be given several times.
    #[arg(long = "action", value_name = "NAME", value_parser = word)]
    actions: Vec<String>,
    /// Longest time that one request may take, such as 20s [default: 60s].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationText>,
    /// Most requests at once from each node [default: 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    concurrency: Option<u32>,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct ShowOptions {
    /// Id of the push worker.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct DeleteOptions {
    /// Id of the push worker.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, client: &Client, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Register(options) => {
            let RegisterOptions { name, url, workflows, tasks, actions, timeout, concurrency, shape } =
                options;
            let asked = CreatePushWorker { name, url, workflows, tasks, actions, timeout, concurrency };
            show_once(&client.create_push_worker(&asked).await?, &shape)
        }
        Command::List(ListOptions { limit, shape }) => {
            let found = limit.read(async |paging| client.list_push_workers(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { id, shape }) => {
            let found = client.get_push_worker(&id).await?;
            shape.show(&found, || table(std::slice::from_ref(&found)))
        }
        Command::Delete(DeleteOptions { id, key, shape }) => {
            confirm(&format!("send the push worker {} no more work", plain(&id)), server).await?;
            let deleted = client.delete_push_worker(&id, key.options()).await?;
            shape.show(&deleted, || format!("{} gets no more work\n", plain(&deleted.name)))
        }
    }
}

fn workflow(text: &str) -> Result<WorkerWorkflow, String> {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => {
            (name, version.parse().map_err(|_| format!("{version:?} is not a version"))?)
        }
        None => (text, 1),
    };
    Ok(WorkerWorkflow { name: word(name)?, version })
}

fn show_once(issued: &IssuedPushWorker, shape: &ShapeOptions) -> Result<()> {
    if shape.shape() == Shape::Table {
        say("give the secret to the function, and keep it like a password; it is shown only once");
    }
    shape.show(issued, || {
        let IssuedPushWorker { push_worker, secret } = issued;
        format!("id      {}\nurl     {}\nsecret  {secret}\n", push_worker.id, plain(&push_worker.url))
    })
}

fn table(found: &[PushWorker]) -> String {
    if found.is_empty() {
        return "there are no push workers\n".into();
    }
    let mut table = tables::table(["id", "name", "url", "workflows", "tasks", "actions", "timeout"]);
    for worker in found {
        let workflows: Vec<_> = worker
            .workflows
            .iter()
            .map(|workflow| format!("{}@{}", workflow.name, workflow.version))
            .collect();
        table.add_row([
            worker.id.clone(),
            plain(&worker.name),
            plain(&worker.url),
            plain(&workflows.join(", ")),
            plain(&worker.tasks.join(", ")),
            plain(&worker.actions.join(", ")),
            worker.timeout.to_string(),
        ]);
    }
    format!("{table}\n")
}
