//! Responses to a second call.

use crate::calls::Bench;
use crate::clause::{Stop, expect, need};
use crate::config::Profile;

pub(crate) async fn new_key_works(bench: &Bench) -> Result<(), Stop> {
    let before = bench.effects_if_counted().await?;
    bench.succeed(bench.call(&bench.key())).await?;
    bench.expect_effects_if_counted(before, 1).await
}

pub(crate) async fn same_status(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let first = bench.succeed(bench.call(&key)).await?;
    let again = bench.send(bench.call(&key)).await?;
    expect(again.status == first.status, &format!("{} again", first.status), again.told())
}

pub(crate) async fn same_body(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let first = bench.succeed(bench.call(&key)).await?;
    for _ in 0..2 {
        let again = bench.send(bench.call(&key)).await?;
        expect(again.body == first.body, &format!("the bytes of {}", first.told()), again.told())?;
    }
    Ok(())
}

pub(crate) async fn no_second_effect(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let before = bench.effects().await?;
    for _ in 0..3 {
        bench.send(bench.call(&key)).await?;
    }
    bench.expect_effects(before, 1).await
}

pub(crate) async fn marked(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let first = bench.succeed(bench.call(&key)).await?;
    expect(!first.is_replayed(), "no `Idempotency-Replayed` on the first answer", "it is there")?;
    let again = bench.send(bench.call(&key)).await?;
    let saw = again.text_of(crate::calls::REPLAYED).map_or("no such header".to_owned(), str::to_owned);
    expect(again.is_replayed(), "`Idempotency-Replayed: true` on the second answer", saw)
}

pub(crate) async fn failure_replayed(bench: &Bench) -> Result<(), Stop> {
    let shape = need(&bench.config.failing_request, "failingRequest")?;
    let key = bench.key();
    let first = bench.send(bench.keyed(shape, &key)).await?;
    expect(first.status >= 500, "5xx from `failingRequest`", first.told())?;
    let again = bench.send(bench.keyed(shape, &key)).await?;
    let is_same = again.status == first.status && again.body == first.body;
    expect(is_same, &format!("{} again", first.told()), again.told())?;
    match bench.config.profile {
        // A service that fails again with the same text looks like one that replays. Only the replay marker shows the
        // difference.
        Profile::Hapax if !bench.config.not_applicable.contains_key("replay_marked") => expect(
            again.is_replayed(),
            "the stored failure, marked as a replay",
            "a failure without the mark",
        ),
        Profile::Hapax | Profile::Ietf => Ok(()),
    }
}
