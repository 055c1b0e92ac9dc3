//! The ledger as a server tells it.

use std::collections::BTreeMap;

use anyhow::Result;
use hapax::model::ClassCount;
use hapax_api::{LedgerClass, LedgerEntry, StepStatus};

use super::{Options, table};
use crate::listing::each_page;
use crate::output;
use crate::server_options::ServerOptions;
use crate::spelling::spelled;

pub(super) async fn run(options: &Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let classes = [LedgerClass::Idempotent, LedgerClass::Claimed, LedgerClass::Transactional];
    let mut counts: BTreeMap<String, ClassCount> =
        classes.iter().map(|class| (spelled(class), ClassCount::default())).collect();
    let mut take = |entries: Vec<LedgerEntry>| match options.summary {
        true => {
            entries.iter().for_each(|entry| add(entry, counts.entry(spelled(&entry.class)).or_default()));
            Ok(())
        }
        false => entries.iter().try_for_each(output::print_json_line),
    };
    match options.run {
        Some(run) => take(client.list_ledger_of_run(&run.to_string()).await?.items)?,
        None => each_page(async |paging| client.list_ledger(&paging).await, take).await?,
    }
    match (options.summary, options.json) {
        (false, _) => Ok(()),
        (true, true) => output::print_json(&counts),
        (true, false) => output::print(&table(&counts)),
    }
}

fn add(entry: &LedgerEntry, count: &mut ClassCount) {
    count.effects += 1;
    count.entries += entry.attempts.len() as u64;
    count.duplicates += u64::from(entry.duplicates);
    count.in_doubt += u64::from(entry.status == StepStatus::InDoubt);
    count.refused_writes += u64::from(entry.refused_writes);
}
