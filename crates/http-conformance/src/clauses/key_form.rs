//! Valid and invalid keys.

use crate::calls::{Bench, KEY};
use crate::clause::{Stop, expect};
use crate::limits::LONGEST_KEY;

/// Sends the main request with exactly this header. It must be refused, and nothing may have run.
async fn refuse(bench: &Bench, values: &[&[u8]]) -> Result<(), Stop> {
    let before = bench.effects_if_counted().await?;
    let mut call = bench.unkeyed(&bench.config.request);
    for value in values {
        call = call.header("idempotency-key", value);
    }
    debug_assert_eq!(call.headers.get_all(KEY).iter().count(), values.len());
    let reply = bench.send(call).await?;
    let written: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value)).collect();
    expect(reply.status == 400, &format!("400 for {written:?}"), reply.told())?;
    bench.expect_effects_if_counted(before, 0).await
}

/// An unused key of this length.
fn key_of(bench: &Bench, length: usize) -> String {
    let mut key = bench.key();
    while key.len() < length {
        key.push('k');
    }
    key
}

pub(crate) async fn quoted_equals_bare(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let before = bench.effects_if_counted().await?;
    let bare = bench.unkeyed(&bench.config.request).header("idempotency-key", &key);
    let quoted = bench.unkeyed(&bench.config.request).header("idempotency-key", format!("\"{key}\""));
    let first = bench.succeed(bare).await?;
    let again = bench.send(quoted).await?;
    expect(again.is_same_operation(&first), &format!("a replay of {}", first.told()), again.told())?;
    bench.expect_effects_if_counted(before, 1).await
}

pub(crate) async fn empty(bench: &Bench) -> Result<(), Stop> {
    refuse(bench, &[b""]).await?;
    refuse(bench, &[b"\"\""]).await
}

pub(crate) async fn too_long(bench: &Bench) -> Result<(), Stop> {
    refuse(bench, &[key_of(bench, LONGEST_KEY + 1).as_bytes()]).await
}

pub(crate) async fn longest(bench: &Bench) -> Result<(), Stop> {
    let before = bench.effects_if_counted().await?;
    let key = key_of(bench, LONGEST_KEY);
    let first = bench.succeed(bench.call(&key)).await?;
    let again = bench.send(bench.call(&key)).await?;
    expect(again.is_same_operation(&first), &format!("a replay of {}", first.told()), again.told())?;
    // If a key is truncated before it is stored, these two become equal.
    let other = format!("{}x", &key[..LONGEST_KEY - 1]);
    let third = bench.send(bench.call(&other)).await?;
    expect(
        !third.is_same_operation(&first),
        "another operation for a key whose last character differs",
        third.told(),
    )?;
    bench.expect_effects_if_counted(before, 2).await
}

pub(crate) async fn bad_characters(bench: &Bench) -> Result<(), Stop> {
    let key = bench.key();
    let with = |middle: &[u8]| [key.as_bytes(), middle, b"end"].concat();
    refuse(bench, &[&with(b"\t")]).await?;
    refuse(bench, &[&with("\u{e9}".as_bytes())]).await?;
    refuse(bench, &[&with(&[0xff])]).await
}

pub(crate) async fn twice(bench: &Bench) -> Result<(), Stop> {
    let (one, other) = (bench.key(), bench.key());
    refuse(bench, &[one.as_bytes(), other.as_bytes()]).await?;
    refuse(bench, &[one.as_bytes(), one.as_bytes()]).await
}

pub(crate) async fn missing(bench: &Bench) -> Result<(), Stop> {
    match bench.config.key_required {
        true => refuse(bench, &[]).await,
        false => Err(Stop::Skipped { why: "the config does not say `keyRequired`".to_owned() }),
    }
}
