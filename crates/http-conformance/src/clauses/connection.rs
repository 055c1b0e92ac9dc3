//! Clients that disconnect and retry.

use crate::calls::Bench;
use crate::clause::{Stop, expect};
use crate::cut::{CutPoint, send_and_leave};

async fn leave_and_retry(bench: &Bench, cut: CutPoint) -> Result<(), Stop> {
    let before = bench.effects().await?;
    // A slow request is still running when its sender disconnects; a quick one may be done by then.
    let shape = bench.config.slow_request.as_ref().filter(|_| cut == CutPoint::BeforeAnswer);
    let call = bench.keyed(shape.unwrap_or(&bench.config.request), &bench.key());
    if cut == CutPoint::MidRequest && call.body.as_ref().is_none_or(|body| body.len() < 2) {
        return Err(Stop::Skipped { why: "`request` has no body to cut".to_owned() });
    }
    send_and_leave(bench, &call, cut).await?;
    let retried = bench.settle(call.clone()).await?;
    expect(retried.is_success(), "2xx for the retry", retried.told())?;
    let again = bench.settle(call).await?;
    expect(again.is_same_operation(&retried), &format!("a replay of {}", retried.told()), again.told())?;
    bench.expect_effects(before, 1).await
}

pub(crate) async fn cut_mid_request(bench: &Bench) -> Result<(), Stop> {
    leave_and_retry(bench, CutPoint::MidRequest).await
}

pub(crate) async fn cut_before_answer(bench: &Bench) -> Result<(), Stop> {
    leave_and_retry(bench, CutPoint::BeforeAnswer).await
}
