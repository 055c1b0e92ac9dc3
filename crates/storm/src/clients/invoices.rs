//! A business object that two people pay at the same time, and that is closed when it is paid.

use anyhow::Result;
use serde_json::json;

use crate::documents::ENTITY;
use crate::http::{Answer, Request};
use crate::plan::WorkItem;
use crate::world::{World, is_final};

/// Keys that one impatient person tries, at most.
const MAX_KEYS: usize = 3;

/// Responses received for one business object.
#[derive(Debug, Clone, Default)]
pub struct InvoiceDone {
    /// Operations that were acknowledged as done, by key.
    pub done: Vec<(String, Answer)>,
    /// The document that was in force before the object was made. Nothing may begin under an earlier one.
    pub document: Option<u64>,
}

/// Replaces the document. As soon as that is acknowledged, an object is made and paid on other nodes.
pub async fn replace_and_pay(world: &World, work: &WorkItem) -> Result<Option<InvoiceDone>> {
    let Some(document) = world.replace_entity_document(work.node, &work.op).await? else { return Ok(None) };
    let elsewhere = WorkItem { node: work.node + 1, ..work.clone() };
    let done = pay_and_close(world, &elsewhere).await?;
    Ok(Some(InvoiceDone { document: Some(document), ..done }))
}

pub async fn pay_and_close(world: &World, work: &WorkItem) -> Result<InvoiceDone> {
    let body = json!({ "id": work.op, "status": "open" });
    let request = Request::post(format!("/api/v1/entities/{ENTITY}"), &body).about(&work.op);
    let made = world.ask(work.node, &request).await?;
    if !made.is_success() {
        world.report("objects are made", Some(&work.op), made.text());
        return Ok(InvoiceDone::default());
    }
    let (ada, bob) = futures_util::future::join(pay(world, work, "ada", 0), pay(world, work, "bob", 1)).await;
    let (ada, bob) = (ada?, bob?);
    let mut all = InvoiceDone { done: [ada.done, bob.done].concat(), document: None };
    if !all.done.is_empty() {
        let key = format!("close:{}", work.op);
        let answer = take_step(world, work.node, &work.op, "close", &key).await?;
        if answer.is_success() && answer.status != 202 {
            all.done.push((key, answer));
        }
    }
    Ok(all)
}

/// One person pays: again under the same key while nobody knows, under a new one when the server says that it failed.
async fn pay(world: &World, work: &WorkItem, who: &str, node: usize) -> Result<InvoiceDone> {
    let mut told = InvoiceDone::default();
    for try_number in 0..MAX_KEYS {
        let key = format!("pay:{who}:{try_number}:{}", work.op);
        let answer = take_step(world, work.node + node, &work.op, "pay", &key).await?;
        if answer.is_success() && answer.status != 202 {
            told.done.push((key, answer));
            return Ok(told);
        }
        // A failed operation may be retried if the response says so; everything else is left to people.
        if answer.code() != "action_failed" {
            return Ok(told);
        }
    }
    Ok(told)
}

/// Repeats the request under one key until the operation has ended or needs a decision.
async fn take_step(world: &World, node: usize, op: &str, step: &str, key: &str) -> Result<Answer> {
    let path = format!("/api/v1/entities/{ENTITY}/{op}/steps/{step}");
    let request = Request::post(path, &json!({ "idempotencyKey": key })).header("Prefer", "wait=4").about(op);
    let settles = |answer: &Answer| {
        let has_ended = is_final(answer) && answer.status != 202;
        // Another operation holds the object, which may end at any time; or it is in doubt, and people have been told.
        let is_held = answer.code() == "claim_failed" && !answer.text().contains("IN_DOUBT");
        (has_ended && !is_held) || answer.code() == "action_failed" || answer.text().contains("IN_DOUBT")
    };
    world.ask_until(node, &request, settles).await
}
