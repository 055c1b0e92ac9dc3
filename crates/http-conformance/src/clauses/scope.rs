//! The scope of keys, and the requests that need one.

use crate::calls::{Bench, REPLAYED};
use crate::clause::{Stop, expect, need};
use crate::config::Shape;
use crate::limits::LONGEST_KEY;

pub(crate) async fn other_credential(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let other = bench.by_other(&key)?;
    let before = bench.effects_if_counted().await?;
    let first = bench.succeed(bench.call(&key)).await?;
    let theirs = bench.succeed(other).await?;
    expect(!theirs.is_replayed(), "a separate operation", "a replay of the other credential's")?;
    let again = bench.send(bench.call(&key)).await?;
    expect(
        again.is_same_operation(&first),
        &format!("{} for the first credential", first.told()),
        again.told(),
    )?;
    bench.expect_effects_if_counted(before, 2).await
}

pub(crate) async fn get_ignores_key(bench: &Bench) -> Result<(), Stop> {
    let effects = need(&bench.config.effects, "effects")?;
    let shape = Shape {
        method: "GET".to_owned(),
        path: effects.path.clone(),
        headers: effects.headers.clone(),
        body: None,
    };
    let key = bench.key();
    bench.succeed(bench.keyed(&shape, &key)).await?;
    let first = bench.succeed(bench.call(&key)).await?;
    expect(!first.is_replayed(), "a first answer to the key", "a replay of the GET")?;
    for key in [key, "k".repeat(LONGEST_KEY + 1)] {
        let read = bench.succeed(bench.keyed(&shape, &key)).await?;
        expect(read.headers.get(REPLAYED).is_none(), "an answer to the GET itself", "a replay")?;
    }
    Ok(())
}

pub(crate) async fn failed_validation_not_stored(bench: &Bench) -> Result<(), Stop> {
    let patch = need(&bench.config.bad_body, "badBody")?;
    let key = bench.key();
    let before = bench.effects_if_counted().await?;
    let refused = bench.send(bench.patched(&key, patch)).await?;
    expect((400..500).contains(&refused.status), "4xx for `badBody`", refused.told())?;
    let good = bench.succeed(bench.call(&key)).await?;
    expect(!good.is_replayed(), "a first answer", "a replay")?;
    bench.expect_effects_if_counted(before, 1).await
}
