//! `hapax credentials`: API keys, their roles and their lives.

use anyhow::Result;
use hapax_api::{CreateCredential, Credential, IssuedCredential, RevokeCredential, Role, RotateCredential};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::{for_people, say};
use crate::server_options::ServerOptions;
use crate::spelling::or_dash;
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax credentials list
  hapax credentials show cred_1
  hapax credentials create billing --role operator --expires-in-days 90
  hapax credentials rotate cred_1 --overlap-seconds 3600 --yes
  hapax credentials revoke cred_1 --reason 'the laptop was lost' --yes

A key is shown once, when it is made or rotated. To make one is not sent twice if the connection is cut: list the credentials
then, and revoke what nobody has the key of.";

const SECONDS_PER_DAY: u64 = 86_400;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List credentials, without their secrets.
    #[command(
        after_help = "Examples:\n  hapax credentials list\n  hapax credentials list --json | jq -r 'select(.role == \"admin\").id'"
    )]
    List(ListOptions),
    /// Show one credential, without its secret.
    #[command(
        after_help = "Examples:\n  hapax credentials show cred_1\n  hapax credentials show cred_1 --json | jq -r .lastUsedAt"
    )]
    Show(ShowOptions),
    /// Make a credential and print its key, this once.
    #[command(after_help = "Examples:\n  hapax credentials create billing --role operator\n  \
                      hapax credentials create ci --role viewer --json | jq -r .apiKey > key")]
    Create(CreateOptions),
    /// Give a credential a new secret and print its key, this once.
    #[command(after_help = "Examples:\n  hapax credentials rotate cred_1 --overlap-seconds 3600 --yes")]
    Rotate(RotateOptions),
    /// End a credential.
    #[command(
        after_help = "Examples:\n  hapax credentials revoke cred_1 --reason 'the laptop was lost' --yes"
    )]
    Revoke(RevokeOptions),
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
    /// The credential's id.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct CreateOptions {
    /// For people, and for the audit log.
    #[arg(value_parser = word)]
    name: String,
    /// What it may do: viewer, worker, operator, manager or admin.
    #[arg(long, value_parser = role)]
    role: Role,
    /// On whose behalf it asks.
    #[arg(long, value_name = "NAME", value_parser = word)]
    requester: Option<String>,
    /// It ends after so many days; never, if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_650))]
    expires_in_days: Option<u64>,
    /// For another workspace, by an admin of the installation.
    #[arg(long, value_name = "ID", value_parser = word)]
    workspace: Option<String>,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RotateOptions {
    /// The credential's id.
    #[arg(value_parser = word)]
    id: String,
    /// How long the old secret still works.
    #[arg(long, value_name = "N")]
    overlap_seconds: Option<u64>,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RevokeOptions {
    /// The credential's id.
    #[arg(value_parser = word)]
    id: String,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "use viewer, worker, operator, manager or admin".into())
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(ListOptions { limit, shape }) => {
            let client = server.connect()?;
            let found = limit.read(async |paging| client.list_credentials(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { id, shape }) => {
            let found = server.connect()?.get_credential(&id).await?;
            shape.show(&found, || table(std::slice::from_ref(&found)))
        }
        Command::Create(CreateOptions { name, role, requester, expires_in_days, workspace, shape }) => {
            let expires_in =
                expires_in_days.map(|days| std::time::Duration::from_secs(days * SECONDS_PER_DAY).into());
            let asked = CreateCredential { name, role, requester, expires_in };
            show_once(&server.connect()?.create_credential(workspace.as_deref(), &asked).await?, &shape)
        }
        Command::Rotate(RotateOptions { id, overlap_seconds, shape }) => {
            confirm(
                &format!("give {} a new key, so that the old one stops working", for_people::plain(&id)),
                server,
            )
            .await?;
            let asked = RotateCredential {
                overlap: overlap_seconds.map(|seconds| std::time::Duration::from_secs(seconds).into()),
            };
            show_once(&server.connect()?.rotate_credential(&id, &asked).await?, &shape)
        }
        Command::Revoke(RevokeOptions { id, reason, key, shape }) => {
            confirm(&format!("end {} for good", for_people::plain(&id)), server).await?;
            let asked = RevokeCredential { reason };
            let ended = server.connect()?.revoke_credential(&id, &asked, key.terms()).await?;
            shape.show(&ended, || format!("{} is revoked; within five seconds no node takes it\n", ended.id))
        }
    }
}

fn show_once(issued: &IssuedCredential, shape: &ShapeOptions) -> Result<()> {
    if shape.shape() == Shape::Table {
        say("keep the key as you keep a password; it is shown this once");
    }
    shape.show(issued, || {
        let IssuedCredential { credential, api_key } = issued;
        format!("id       {}\nrole     {}\napi key  {api_key}\n", credential.id, credential.role.as_str())
    })
}

fn table(found: &[Credential]) -> String {
    let columns = ["id", "name", "role", "requester", "made", "last used", "expires", "revoked"];
    let mut table = for_people::table(columns);
    for credential in found {
        table.add_row([
            credential.id.clone(),
            for_people::plain(&credential.name),
            credential.role.as_str().into(),
            or_dash(credential.requester.as_deref()),
            credential.created_at.clone(),
            or_dash(credential.last_used_at.as_deref()),
            or_dash(credential.expires_at.as_deref()),
            or_dash(credential.revoked_at.as_deref()),
        ]);
    }
    format!("{table}\n")
}
