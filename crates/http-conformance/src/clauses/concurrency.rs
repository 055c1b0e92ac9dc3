//! Concurrent duplicates.

use futures_util::future::join_all;

use crate::calls::{Bench, Call, Reply};
use crate::clause::{Stop, expect, need};
use crate::limits::{CALLS_IN_FLIGHT, CONCURRENT_DUPLICATES};

async fn send_at_once(bench: &Bench, call: Call, times: usize) -> Result<Vec<Reply>, Stop> {
    let replies = join_all((0..times).map(|_| bench.send(call.clone()))).await;
    replies.into_iter().collect()
}

pub(crate) async fn one_effect(bench: &Bench) -> Result<(), Stop> {
    let before = bench.effects().await?;
    let call = bench.call(&bench.key());
    let replies = send_at_once(bench, call.clone(), CONCURRENT_DUPLICATES).await?;
    for reply in &replies {
        expect(reply.is_success() || reply.status == 409, "2xx or 409 for each duplicate", reply.told())?;
    }
    // If every duplicate got 409 for another in progress, one must have run.
    let settled = bench.settle(call).await?;
    expect(settled.is_success(), "2xx once all is done", settled.told())?;
    bench.expect_effects(before, 1).await
}

pub(crate) async fn same_body(bench: &Bench) -> Result<(), Stop> {
    let replies = send_at_once(bench, bench.call(&bench.key()), CONCURRENT_DUPLICATES).await?;
    let Some(first) = replies.first() else { return Ok(()) };
    expect(first.is_success(), "2xx", first.told())?;
    for reply in &replies {
        let is_same = (reply.status, &reply.body) == (first.status, &first.body);
        expect(is_same, &format!("{} for all {CONCURRENT_DUPLICATES}", first.told()), reply.told())?;
    }
    Ok(())
}

/// Concurrent calls of one slow operation that do not wait: one does the work, whichever comes first.
async fn race(bench: &Bench) -> Result<Vec<Reply>, Stop> {
    let shape = need(&bench.config.slow_request, "slowRequest")?;
    let call = bench.keyed(shape, &bench.key()).header("prefer", "wait=0");
    let replies = send_at_once(bench, call, CALLS_IN_FLIGHT).await?;
    let told = || replies.iter().map(Reply::told).collect::<Vec<_>>().join("; ");
    let (told_to_wait, done): (Vec<&Reply>, Vec<&Reply>) =
        replies.iter().partition(|reply| reply.status == 409);
    // A call that arrives after the work is done gets its result; that is no fault of the service.
    let is_once = done.first().is_some_and(|first| done.iter().all(|reply| reply.is_same_operation(first)));
    let expected = "one call that does the work, and 409 for the others";
    expect(is_once && !told_to_wait.is_empty(), expected, told())?;
    Ok(replies.into_iter().filter(|reply| reply.status == 409).collect())
}

pub(crate) async fn in_flight_409(bench: &Bench) -> Result<(), Stop> {
    race(bench).await.map(drop)
}

pub(crate) async fn in_flight_retry_after(bench: &Bench) -> Result<(), Stop> {
    for reply in race(bench).await? {
        let seconds = reply.text_of("retry-after").and_then(|value| value.trim().parse::<u64>().ok());
        let saw = reply.text_of("retry-after").unwrap_or("no such header").to_owned();
        expect(seconds.is_some(), "`Retry-After` in seconds", saw)?;
        let is_named = reply.find_code().as_deref() == Some("request_in_progress");
        expect(is_named, "code `request_in_progress`", reply.told())?;
    }
    Ok(())
}
