//! `hapax audit export` and `hapax audit verify`: the audit log in a file that shows if anybody changed it, there or in the store.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use hapax_api::JournalEntry;
use hapax_api::client::{AuditFilter, Client};

use super::chain::{Chain, ChainKey};
use crate::limits::{AUDIT_EXPORT_LOOK_BACK, FOLLOW_AUDIT_EVERY, MAX_SHOWN_VIOLATIONS};
use crate::listing::each_page;
use crate::output::{print, tables};
use crate::parsers::duration;
use crate::server_options::ServerOptions;

const EXPORT_EXAMPLES: &str = "\
Examples:
  hapax audit export audit.jsonl                  what is new since the last time
  hapax audit export audit.jsonl --follow         goes on, with new entries as they come
  hapax audit export audit.jsonl --chain-key-file chain.key";
const VERIFY_EXAMPLES: &str = "\
Examples:
  hapax audit verify audit.jsonl                  the file, and against the server
  hapax audit verify audit.jsonl --offline        the file alone
  hapax audit verify audit.jsonl --head HASH      fails if the end was cut off";

#[derive(Debug, clap::Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportOptions {
    /// File to append to; it is created if it is absent.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    key: KeyOptions,
    /// Leave out entries that are younger than this: transactions may still commit before them.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    lag: Duration,
    /// Go on, with new entries as they come. `tail -F FILE` passes them on, to syslog for example.
    #[arg(long)]
    follow: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyOptions {
    /// File of `hapax audit export`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    key: KeyOptions,
    /// Hash that the last export printed; fails if the file ends before it.
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
    /// Check the file alone, not whether the server still has the same entries.
    #[arg(long)]
    offline: bool,
}

#[derive(Debug, clap::Args)]
struct KeyOptions {
    /// File with a key for the chain, at least 32 bytes. Without it, anybody with write access to the file can create a new chain.
    #[arg(long, value_name = "FILE", env = "HAPAX_AUDIT_CHAIN_KEY_FILE")]
    chain_key_file: Option<PathBuf>,
}

pub(super) async fn export(options: ExportOptions, server: &ServerOptions) -> Result<()> {
    let key = ChainKey::read(options.key.chain_key_file.as_deref())?;
    let client = server.connect()?;
    Chain::remove_cut_off_line(&options.file)?;
    let mut chain = Chain::read(&options.file, &key)?;
    loop {
        let fresh = read_fresh(&client, &chain, options.lag).await?;
        chain.append(&options.file, &key, &fresh)?;
        if !options.follow {
            let (count, head, file) = (chain.count, &chain.head, options.file.display());
            return print(&format!("{} new entries, {count} in {file}; head {head}\n", fresh.len()));
        }
        tokio::time::sleep(FOLLOW_AUDIT_EVERY).await;
    }
}

/// Entries that the file does not have yet. The newest are left for later, and a while before the
/// last one is looked at again: transactions commit in another order than they began.
async fn read_fresh(client: &Client, chain: &Chain, lag: Duration) -> Result<Vec<JournalEntry>> {
    let since = chain.last_at.as_deref().map(|at| before(at, AUDIT_EXPORT_LOOK_BACK)).transpose()?;
    let until = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::try_from(lag)?)?;
    let entries = list(client, since, Some(until.to_string())).await?;
    let is_new = |entry: &JournalEntry| entry.id.as_ref().is_some_and(|id| !chain.entries.contains_key(id));
    Ok(entries.into_iter().filter(is_new).collect())
}

fn before(at: &str, span: Duration) -> Result<String> {
    let at: jiff::Timestamp = at.parse()?;
    Ok(at.checked_sub(jiff::SignedDuration::try_from(span)?)?.to_string())
}

async fn list(client: &Client, since: Option<String>, until: Option<String>) -> Result<Vec<JournalEntry>> {
    let filter = AuditFilter { since, until, ..AuditFilter::default() };
    let mut entries: Vec<JournalEntry> = Vec::new();
    let take = |page| {
        entries.extend::<Vec<_>>(page);
        Ok(())
    };
    each_page(async |paging| client.list_audit(&filter, &paging).await, take).await?;
    Ok(entries)
}

pub(super) async fn verify(options: VerifyOptions, server: &ServerOptions) -> Result<()> {
    let key = ChainKey::read(options.key.chain_key_file.as_deref())?;
    if !options.file.exists() {
        bail!("{}: there is no such file", options.file.display());
    }
    let chain = Chain::read(&options.file, &key)?;
    if let Some(head) = options.head.as_ref().filter(|head| **head != chain.head) {
        bail!("the file ends with {}, not with {head}: lines were cut off, or it went on since", chain.head);
    }
    let mut problems = Vec::new();
    if !options.offline {
        problems = compare(&server.connect()?, &chain).await?;
    }
    for problem in problems.iter().take(MAX_SHOWN_VIOLATIONS) {
        print(&format!("{}\n", tables::plain(problem)))?;
    }
    if !problems.is_empty() {
        bail!("the audit log of the server differs from the file in {} entries", problems.len());
    }
    print(&format!("{} entries, all unchanged; head {}\n", chain.count, chain.head))
}

/// Where the server differs from the file.
async fn compare(client: &Client, chain: &Chain) -> Result<Vec<String>> {
    let (Some(first), Some(last)) = (&chain.first_at, &chain.last_at) else { return Ok(Vec::new()) };
    let since = chain.entries.values().filter_map(|entry| entry["at"].as_str()).min().unwrap_or(first);
    let mut problems = Vec::new();
    let mut missing = chain.entries.clone();
    // Entries after the last line may not be exported yet.
    let exported_until = before(last, AUDIT_EXPORT_LOOK_BACK)?;
    // The texts of two times within one second are not in their order.
    for entry in list(client, Some(before(since, Duration::from_secs(1))?), None).await? {
        let Some(id) = entry.id.clone() else { continue };
        match missing.remove(&id) {
            Some(exported) if exported == serde_json::to_value(&entry)? => {}
            Some(_) => problems.push(format!("{id}: changed since it was exported")),
            None if is_before(&entry.at, &exported_until)? => {
                problems.push(format!("{id}: added afterwards, with an earlier time"));
            }
            None => {}
        }
    }
    problems.extend(missing.keys().map(|id| format!("{id}: no longer in the audit log")));
    Ok(problems)
}

fn is_before(one: &str, other: &str) -> Result<bool> {
    Ok(one.parse::<jiff::Timestamp>()? < other.parse::<jiff::Timestamp>()?)
}
