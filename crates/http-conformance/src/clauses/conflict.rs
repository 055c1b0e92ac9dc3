//! One key with a different request, and changes that do not make a request different.

use serde_json::Value;

use crate::calls::{Bench, Reply};
use crate::clause::{Stop, expect, need};

/// The answer to another body under a used key.
async fn provoke(bench: &Bench) -> Result<Reply, Stop> {
    let patch = need(&bench.config.other_body, "otherBody")?;
    let key = bench.key();
    bench.succeed(bench.call(&key)).await?;
    let reply = bench.send(bench.patched(&key, patch)).await?;
    expect(reply.status == 422, "422", reply.told())?;
    Ok(reply)
}

pub(crate) async fn other_body_422(bench: &Bench) -> Result<(), Stop> {
    provoke(bench).await.map(drop)
}

pub(crate) async fn problem(bench: &Bench) -> Result<(), Stop> {
    let reply = provoke(bench).await?;
    let kind = reply.text_of("content-type").unwrap_or("none").to_owned();
    let is_problem = kind.split(';').next().is_some_and(|kind| kind.trim() == "application/problem+json");
    expect(is_problem, "content-type application/problem+json", kind)?;
    let code = reply.find_code();
    expect(
        code.as_deref() == Some("idempotency_key_conflict"),
        "code `idempotency_key_conflict`",
        reply.told(),
    )
}

pub(crate) async fn stored_request(bench: &Bench) -> Result<(), Stop> {
    let reply = provoke(bench).await?;
    let stored = reply.json().and_then(|json| json.get("storedRequest").cloned());
    let is_summary = matches!(&stored, Some(Value::Object(fields)) if !fields.is_empty());
    expect(is_summary, "`storedRequest`, an object", reply.told())
}

pub(crate) async fn changes_nothing(bench: &Bench) -> Result<(), Stop> {
    let patch = need(&bench.config.other_body, "otherBody")?;
    let key = bench.key();
    let before = bench.effects_if_counted().await?;
    let first = bench.succeed(bench.call(&key)).await?;
    let refused = bench.send(bench.patched(&key, patch)).await?;
    expect(!refused.is_success() || refused.is_same_operation(&first), "a refusal", refused.told())?;
    let again = bench.send(bench.call(&key)).await?;
    expect(again.is_same_operation(&first), &format!("{} as before", first.told()), again.told())?;
    bench.expect_effects_if_counted(before, 1).await
}

pub(crate) async fn other_target(bench: &Bench) -> Result<(), Stop> {
    let shape = need(&bench.config.other_request, "otherRequest")?;
    let key = bench.key();
    bench.succeed(bench.call(&key)).await?;
    let reply = bench.send(bench.keyed(shape, &key)).await?;
    expect(reply.status == 422, "422", reply.told())
}

pub(crate) async fn json_form_ignored(bench: &Bench) -> Result<(), Stop> {
    let call = bench.call(&bench.key());
    let body = call.body.as_deref().and_then(|body| serde_json::from_slice::<Value>(body).ok());
    let Some(Value::Object(fields)) = body else {
        return Err(Stop::Skipped { why: "the body of `request` is no object".to_owned() });
    };
    let before = bench.effects_if_counted().await?;
    let first = bench.succeed(call.clone()).await?;
    // Written by hand, because a JSON library would restore the field order.
    let reversed: Vec<String> = fields
        .iter()
        .rev()
        .map(|(name, value)| format!("\r\n\t{} :  {value} ", Value::from(name.as_str())))
        .collect();
    let again = bench.send(call.body(format!(" {{{}\n}}\n", reversed.join(",")))).await?;
    expect(again.is_same_operation(&first), &format!("a replay of {}", first.told()), again.told())?;
    bench.expect_effects_if_counted(before, 1).await
}
