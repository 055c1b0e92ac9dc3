//! A business object that two people pay at the same time, and that is closed when it is paid.

use anyhow::Result;
use serde_json::json;

use crate::documents::ENTITY;
use crate::http::{Answer, Request};
use crate::plan::Work;
use crate::world::{World, is_final};

/// Keys that one impatient person tries, at most.
const MAX_KEYS: usize = 3;

/// What the people around one object were told.
#[derive(Debug, Clone, Default)]
pub struct InvoiceDone {
    /// Operations that were acknowledged as done, by key.
    pub done: Vec<(String, Answer)>,
    /// Every final answer, for stories.
    pub told: Vec<(String, String)>,
}

pub async fn pay_and_close(world: &World, work: &Work) -> Result<InvoiceDone> {
    let body = json!({ "id": work.op, "status": "open" });
    let made = world.ask(work.node, &Request::post(format!("/api/v1/entities/{ENTITY}"), &body)).await?;
    if !made.is_success() {
        world.report("objects are made", Some(&work.op), made.text());
        return Ok(InvoiceDone::default());
    }
    let (ada, bob) = futures_util::future::join(pay(world, work, "ada", 0), pay(world, work, "bob", 1)).await;
    let (ada, bob) = (ada?, bob?);
    let mut all = InvoiceDone { done: [ada.done, bob.done].concat(), told: [ada.told, bob.told].concat() };
    if !all.done.is_empty() {
        let key = format!("close:{}", work.op);
        let answer = take_step(world, work.node, &work.op, "close", &key).await?;
        if answer.is_success() && answer.status != 202 {
            all.done.push((key.clone(), answer.clone()));
        }
        all.told.push((key, answer.text()));
    }
    Ok(all)
}

/// One person pays: again under the same key while nobody knows, under a new one when the server says that it failed.
async fn pay(world: &World, work: &Work, who: &str, node: usize) -> Result<InvoiceDone> {
    let mut told = InvoiceDone::default();
    for try_number in 0..MAX_KEYS {
        let key = format!("pay:{who}:{try_number}:{}", work.op);
        let answer = take_step(world, work.node + node, &work.op, "pay", &key).await?;
        told.told.push((key.clone(), answer.text()));
        if answer.is_success() && answer.status != 202 {
            told.done.push((key, answer));
            return Ok(told);
        }
        // What failed may be tried again, as the answer says; everything else is for people.
        if answer.code() != "action_failed" {
            return Ok(told);
        }
    }
    Ok(told)
}

/// Asks under one key until the operation has ended, or somebody has to decide.
async fn take_step(world: &World, node: usize, op: &str, step: &str, key: &str) -> Result<Answer> {
    let path = format!("/api/v1/entities/{ENTITY}/{op}/steps/{step}");
    let request = Request::post(path, &json!({ "idempotencyKey": key })).header("Prefer", "wait=4");
    let settles = |answer: &Answer| {
        let has_ended = is_final(answer) && answer.status != 202;
        // Another operation holds the object, which may end at any time; or it is in doubt, and people have been told.
        let is_held = answer.code() == "claim_failed" && !answer.text().contains("IN_DOUBT");
        (has_ended && !is_held) || answer.code() == "action_failed" || answer.text().contains("IN_DOUBT")
    };
    world.ask_until(node, &request, settles).await
}
