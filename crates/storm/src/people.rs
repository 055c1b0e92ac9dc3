//! People: they rule on doubts, truthfully, by what the provider has on record.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::event_log::About;
use crate::http::Request;
use crate::limits::{SETTLE, STEP_TIMEOUT};
use crate::world::World;

/// Observations and decisions of people.
#[derive(Debug, Default)]
pub struct People {
    /// When each doubt was first seen; one that changes is another doubt.
    seen: HashMap<String, Instant>,
    pub ruled_happened: usize,
    pub ruled_did_not_happen: usize,
    pub resumed: usize,
    asked: AtomicUsize,
}

/// Time after which people are sure that nothing of a doubt is on its way any more.
const SURE_AFTER: Duration = Duration::from_secs(SETTLE.as_secs() + STEP_TIMEOUT.as_secs());

impl People {
    /// Looks at everything that waits for people, once.
    pub async fn look(&mut self, world: &World) -> Result<()> {
        for doubt in self.read(world, "/api/v1/doubts?limit=200").await? {
            let text = |name: &str| doubt[name].as_str().unwrap_or_default();
            let (run, step) = (text("runId"), text("stepId"));
            let path = format!("/api/v1/doubts/{run}/{}/resolve", percent_encoded(step));
            let kind = step.split(['~', '.']).next().unwrap_or_default();
            let seen = json!({ "version": doubt["version"], "reason": "the provider's record says so" });
            self.rule(world, text("effectKey"), &path, seen, |id| json!({ "output": { kind: id } })).await;
        }
        for operation in self.read(world, "/api/v1/operations?status=IN_DOUBT&limit=200").await? {
            let text = |name: &str| operation[name].as_str().unwrap_or_default();
            let path = format!("/api/v1/operations/{}/resolve", text("id"));
            let seen = json!({ "attempt": operation["attempts"], "reason": "the provider's record says so" });
            self.rule(world, text("effectKey"), &path, seen, |id| json!({ "result": { "id": id } })).await;
        }
        Ok(())
    }

    /// Resumes runs that were quarantined because they were interrupted too often. Only after the storm.
    pub async fn resume_quarantined(&mut self, world: &World) -> Result<()> {
        for run in self.read(world, "/api/v1/workflow-runs?status=PAUSED&limit=200").await? {
            let id = run["id"].as_str().unwrap_or_default();
            let events = world.list(&format!("/api/v1/workflow-runs/{id}/events")).await?;
            let last =
                events.iter().rev().find(|event| event["kind"] == "paused" || event["kind"] == "quarantined");
            if last.is_some_and(|event| event["kind"] == "quarantined") {
                let path = format!("/api/v1/workflow-runs/{id}/resume");
                world.ask(0, &Request::post(path, &json!({ "reason": "the storm is over" }))).await?;
                world.event_log.add(About::Id(id.to_owned()), "people", format!("resume {id}"));
                self.resumed += 1;
            }
        }
        Ok(())
    }

    async fn read(&self, world: &World, path: &str) -> Result<Vec<Value>> {
        let node = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = world.send(node, &Request::get(path)).await?;
        anyhow::ensure!(answer.is_success(), "{}", answer.text());
        Ok(answer.json()["items"].as_array().cloned().unwrap_or_default())
    }

    /// Rules if the truth is known: the effect is on record, or it is not and nothing can be on its way.
    async fn rule(
        &mut self,
        world: &World,
        key: &str,
        path: &str,
        mut body: Value,
        given: impl Fn(&str) -> Value,
    ) {
        let first_seen = *self.seen.entry(format!("{path} {body}")).or_insert_with(Instant::now);
        let found = world.provider.find_effect(key);
        match &found {
            Some(id) => {
                body["resolution"] = json!("happened");
                for (name, value) in given(id).as_object().into_iter().flatten() {
                    body[name] = value.clone();
                }
            }
            None if first_seen.elapsed() > SURE_AFTER && !world.provider.is_working(key) => {
                body["resolution"] = json!("did_not_happen");
            }
            None => return,
        }
        let node = self.asked.fetch_add(1, Ordering::Relaxed);
        // A refusal is fine: a probe was faster, or the doubt has changed.
        if let Ok(answer) = world.send(node, &Request::post(path, &body)).await
            && answer.is_success()
        {
            let what = match found {
                Some(_) => "happened",
                None => "did_not_happen",
            };
            world.event_log.add(About::Id(key.to_owned()), "people", format!("rule on {key}: {what}"));
            match found {
                Some(_) => self.ruled_happened += 1,
                None => self.ruled_did_not_happen += 1,
            }
        }
    }
}

fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
