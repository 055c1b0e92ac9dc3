//! The lifetime of keys, and answers to retries after it.

use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};

use crate::calls::{Bench, Reply};
use crate::clause::{Stop, expect};
use crate::limits::{CLOCK_SLACK, SHORTEST_WINDOW};

/// Older than the window of any service.
const LONG_AGO: SignedDuration = SignedDuration::from_hours(24 * 3660);

pub(crate) async fn expires(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    bench.succeed(bench.call(&key)).await?;
    let again = bench.send(bench.call(&key)).await?;
    let saw = again.text_of("idempotency-expires").unwrap_or("no such header").to_owned();
    let told = find_date(&again, "idempotency-expires");
    // By the clock of the service, if its answers show it.
    let now = find_date(&again, "date").unwrap_or_else(Timestamp::now);
    let least = now + SignedDuration::try_from(SHORTEST_WINDOW - CLOCK_SLACK).unwrap_or_default();
    let expected = "`Idempotency-Expires`, an HTTP date at least 24 hours from now";
    expect(told.is_some_and(|told| told >= least), expected, saw)
}

fn find_date(reply: &Reply, header: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(reply.text_of(header)?).ok()
}

pub(crate) async fn late(bench: &Bench) -> Result<(), Stop> {
    let before = bench.effects_if_counted().await?;
    let sent = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&(Timestamp::now() - LONG_AGO));
    let sent = sent.map_err(|error| Stop::Skipped { why: format!("no date could be made: {error}") })?;
    let reply = bench.send(bench.call(&bench.key()).header("idempotency-first-sent", sent)).await?;
    expect(reply.status == 412, "412", reply.told())?;
    let is_named = reply.find_code().as_deref() == Some("idempotency_window_passed");
    expect(is_named, "code `idempotency_window_passed`", reply.told())?;
    bench.expect_effects_if_counted(before, 0).await
}
