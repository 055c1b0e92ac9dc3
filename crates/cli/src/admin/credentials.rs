//! `hapax admin credentials`: API keys, their roles and their lives.

use std::time::Duration;

use anyhow::Result;
use hapax_api::{
    CreateCredential, Credential, IssuedCredential, OfferedNames, RevokeCredential, Role, RotateCredential,
};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::{say, tables};
use crate::parsers::{duration, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax admin credentials list
  hapax admin credentials show cred_1
  hapax admin credentials create billing --role operator --expires-in 90d
  hapax admin credentials rotate cred_1 --overlap 1h --yes
  hapax admin credentials revoke cred_1 --reason 'the laptop was lost' --yes

A key is shown once, when it is made or rotated. To make one is not sent twice if the connection is cut: list the credentials
then, and revoke what nobody has the key of.";

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
        after_help = "Examples:\n  hapax admin credentials list\n  hapax admin credentials list --json | jq -r 'select(.role == \"admin\").id'"
    )]
    List(ListOptions),
    /// Show one credential, without its secret.
    #[command(
        after_help = "Examples:\n  hapax admin credentials show cred_1\n  hapax admin credentials show cred_1 --json | jq -r .lastUsedAt"
    )]
    Show(ShowOptions),
    /// Create a credential and print its key, once.
    #[command(after_help = "Examples:\n  hapax admin credentials create billing --role operator\n  \
                      hapax admin credentials create ci --role viewer --json | jq -r .apiKey > key\n  \
                      hapax admin credentials create billing-worker --role worker --workflow 'billing-*' --task send-mail")]
    Create(CreateOptions),
    /// Give a credential a new secret and print its key, once.
    #[command(after_help = "Examples:\n  hapax admin credentials rotate cred_1 --overlap 1h --yes")]
    Rotate(RotateOptions),
    /// End a credential.
    #[command(
        after_help = "Examples:\n  hapax admin credentials revoke cred_1 --reason 'the laptop was lost' --yes"
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
    /// Name for people and for the audit log.
    #[arg(value_parser = word)]
    name: String,
    /// Role of the key: viewer, worker, operator, manager or admin.
    #[arg(long, value_parser = role)]
    role: Role,
    /// Requester that the key acts for.
    #[arg(long, value_name = "NAME", value_parser = word)]
    requester: Option<String>,
    /// Workflow that workers with the key may offer; a name, or the beginning of names and `*`. May be given more than once. Without any of --workflow, --task and --action they may offer every name.
    #[arg(long = "workflow", value_name = "NAME", value_parser = word)]
    workflows: Vec<String>,
    /// Task that workers with the key may offer.
    #[arg(long = "task", value_name = "NAME", value_parser = word)]
    tasks: Vec<String>,
    /// Action that workers with the key may offer.
    #[arg(long = "action", value_name = "NAME", value_parser = word)]
    actions: Vec<String>,
    /// Time after which the key expires, such as 90d [default: never].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    /// Networks that the key may be used from, such as 10.8.0.0/16; separated by commas [default: any].
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    networks: Vec<String>,
    /// Keep inputs, outputs and other payloads from the key.
    #[arg(long)]
    hide_payloads: bool,
    /// Workspace of the key, given by an admin of the installation [default: your own].
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
    /// How long the old key still works, such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    overlap: Option<Duration>,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RevokeOptions {
    /// The credential's id.
    #[arg(value_parser = word)]
    id: String,
    /// Reason, for the audit log.
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
        Command::Create(options) => {
            let CreateOptions {
                name,
                role,
                requester,
                workflows,
                tasks,
                actions,
                expires_in,
                networks,
                hide_payloads,
                workspace,
                shape,
            } = options;
            let (expires_in, hides_payloads) = (expires_in.map(Into::into), hide_payloads);
            let names = OfferedNames { workflows, tasks, actions };
            let may_offer = (names != OfferedNames::default()).then_some(names);
            let asked =
                CreateCredential { name, role, requester, expires_in, networks, hides_payloads, may_offer };
            show_once(&server.connect()?.create_credential(workspace.as_deref(), &asked).await?, &shape)
        }
        Command::Rotate(RotateOptions { id, overlap, shape }) => {
            confirm(
                &format!("give {} a new key, so that the old one stops working", tables::plain(&id)),
                server,
            )
            .await?;
            let asked = RotateCredential { overlap: overlap.map(Into::into) };
            show_once(&server.connect()?.rotate_credential(&id, &asked).await?, &shape)
        }
        Command::Revoke(RevokeOptions { id, reason, key, shape }) => {
            confirm(&format!("end {} for good", tables::plain(&id)), server).await?;
            let asked = RevokeCredential { reason };
            let ended = server.connect()?.revoke_credential(&id, &asked, key.options()).await?;
            shape
                .show(&ended, || format!("{} is revoked; within five seconds no node accepts it\n", ended.id))
        }
    }
}

fn show_once(issued: &IssuedCredential, shape: &ShapeOptions) -> Result<()> {
    if shape.shape() == Shape::Table {
        say("keep the key like a password; it is shown only once");
    }
    shape.show(issued, || {
        let IssuedCredential { credential, api_key } = issued;
        format!("id       {}\nrole     {}\napi key  {api_key}\n", credential.id, credential.role.as_str())
    })
}

fn table(found: &[Credential]) -> String {
    let columns = ["id", "name", "role", "requester", "made", "last used", "expires", "revoked"];
    let mut table = tables::table(columns);
    for credential in found {
        table.add_row([
            credential.id.clone(),
            tables::plain(&credential.name),
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
