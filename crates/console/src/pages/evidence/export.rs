//! The export: one row an effect, each sealed with the hash of the row before it.

use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use hapax_api::LedgerEntry;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::read_ledger;
use crate::failure::Failure;
use crate::text;
use crate::visit::Visit;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ExportQuery {
    #[serde(default)]
    format: String,
    #[serde(default)]
    cursor: String,
}

/// Hash before the first row.
const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One link of the chain: `hash` is the SHA-256 of `previous`, a line feed, and `entry` as it stands.
#[derive(Debug, Serialize)]
struct Link {
    place: usize,
    entry: Box<serde_json::value::RawValue>,
    previous: String,
    hash: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Export {
    workspace: String,
    effects: usize,
    /// Are these all effects that are kept, from the place asked for?
    is_complete: bool,
    /// Hash of the last row. It proves all rows.
    seal: String,
    rows: Vec<Link>,
}

pub(super) async fn export(visit: Visit, Query(asked): Query<ExportQuery>) -> Result<Response, Failure> {
    let (entries, next) = read_ledger(&visit, &asked.cursor).await?;
    let rows = chain(&entries);
    let seal = rows.last().map_or(BEGINNING, |row| &row.hash).to_owned();
    let (kind, ending, body) = match asked.format.as_str() {
        "csv" => ("text/csv; charset=utf-8", "csv", csv(&entries, &rows)),
        _ => {
            let export = Export {
                workspace: visit.session.workspace.clone(),
                effects: rows.len(),
                is_complete: next.is_none(),
                seal,
                rows,
            };
            ("application/json", "json", serde_json::to_string_pretty(&export).unwrap_or_default())
        }
    };
    let name = format!("attachment; filename=\"hapax-evidence.{ending}\"");
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], body).into_response())
}

fn chain(entries: &[LedgerEntry]) -> Vec<Link> {
    let mut previous = BEGINNING.to_owned();
    let link = |(place, entry): (usize, &LedgerEntry)| {
        let entry = serde_json::value::to_raw_value(entry).expect("an entry is JSON");
        let digest =
            Sha256::new().chain_update(&previous).chain_update("\n").chain_update(entry.get()).finalize();
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Link { place: place + 1, entry, previous: std::mem::replace(&mut previous, hash.clone()), hash }
    };
    entries.iter().enumerate().map(link).collect()
}

fn csv(entries: &[LedgerEntry], rows: &[Link]) -> String {
    let mut text = String::from(
        "place,effectKey,run,operation,step,class,status,attempts,happened,mayHaveHappened,happenedTwice,mayHaveHappenedTwice,entry,previous,hash\n",
    );
    for (entry, row) in entries.iter().zip(rows) {
        let cells = [
            row.place.to_string(),
            entry.effect_key.clone(),
            entry.run_id.clone().unwrap_or_default(),
            entry.operation_id.clone().unwrap_or_default(),
            entry.step_id.clone(),
            text::spelled(&entry.class),
            entry.status.map(|status| text::spelled(&status)).unwrap_or_default(),
            entry.attempt_log.len().to_string(),
            entry.happened.to_string(),
            entry.may_have_happened.to_string(),
            entry.happened_twice.to_string(),
            entry.may_have_happened_twice.to_string(),
            row.entry.get().to_owned(),
            row.previous.clone(),
            row.hash.clone(),
        ];
        text.push_str(&cells.map(|cell| text::csv_cell(&cell)).join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(step: &str) -> LedgerEntry {
        let text = format!(
            r#"{{"effectKey":"r:{step}","stepId":"{step}","class":"claimed","attemptLog":[],"probes":[],"rulings":[],"refusedWrites":0,
               "happened":1,"mayHaveHappened":0,"happenedTwice":0,"mayHaveHappenedTwice":0}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_row_that_was_taken_out_breaks_the_chain() {
        let rows = chain(&[entry("a"), entry("b"), entry("c")]);
        assert_eq!(rows[0].previous, BEGINNING);
        assert_eq!((&rows[1].previous, &rows[2].previous), (&rows[0].hash, &rows[1].hash));
        let without = chain(&[entry("a"), entry("c")]);
        assert_ne!(without[1].hash, rows[2].hash);
    }
}
