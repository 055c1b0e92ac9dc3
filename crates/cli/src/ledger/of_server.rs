//! The ledger of a server.

use std::collections::BTreeMap;

use anyhow::Result;
use hapax::model::ClassCount;
use hapax_api::{LedgerClass, LedgerEntry, StepStatus};

use super::{Options, Printer, Row, table};
use crate::listing::each_page;
use crate::output::tables::plain;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

pub(super) async fn run(options: &Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let classes = [LedgerClass::Idempotent, LedgerClass::Claimed, LedgerClass::Transactional];
    let mut counts: BTreeMap<String, ClassCount> =
        classes.iter().map(|class| (spelled(class), ClassCount::default())).collect();
    let mut printer = Printer::new(options);
    let mut take = |entries: Vec<LedgerEntry>| match options.summary {
        true => {
            entries.iter().for_each(|entry| add(entry, counts.entry(spelled(&entry.class)).or_default()));
            Ok(())
        }
        false => entries.iter().try_for_each(|entry| printer.print(entry, row(entry))),
    };
    match options.run {
        Some(run) => take(client.list_ledger_of_run(&run.to_string()).await?.items)?,
        None => each_page(async |paging| client.list_ledger(&paging).await, take).await?,
    }
    match options.summary {
        false => printer.finish(),
        true => options.shape().show(&counts, || table(&counts)),
    }
}

fn row(entry: &LedgerEntry) -> Row {
    [
        plain(&entry.effect_key),
        spelled(&entry.class),
        entry.status.as_ref().map_or_else(|| "-".into(), spelled),
        entry.attempt_log.len().to_string(),
        entry.happened_twice.to_string(),
        entry.may_have_happened_twice.to_string(),
        entry.refused_writes.to_string(),
    ]
}

fn add(entry: &LedgerEntry, count: &mut ClassCount) {
    count.effects += 1;
    count.entries += entry.attempt_log.len() as u64;
    count.happened_twice += u64::from(entry.happened_twice);
    count.may_have_happened_twice += u64::from(entry.may_have_happened_twice);
    count.in_doubt += u64::from(entry.status == Some(StepStatus::InDoubt));
    count.refused_writes += u64::from(entry.refused_writes);
}
