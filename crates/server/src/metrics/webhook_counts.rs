//! Counts received webhooks by source and outcome, and rejected ones by reason.

use std::collections::BTreeMap;
use std::sync::Mutex;

use hapax_engine::model::WorkspaceId;

use super::exposition::Exposition;
use crate::limits::MAX_SOURCE_SERIES;
use crate::webhooks::inbound::DISBELIEVED;

/// Why a verified webhook, or an unverified sender, is rejected.
const REFUSED: [&str; 5] = ["rate_limited", "too_large", "compressed", "bad_body", "bad_event_id"];

#[derive(Debug, Default)]
pub(super) struct WebhookCounts {
    events: Mutex<BTreeMap<Series, u64>>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

/// The workspace, the source, and the outcome of the event.
type Series = (String, String, &'static str);

impl WebhookCounts {
    /// Counts the outcome of an event. Sources beyond the limit are counted together.
    pub(super) fn count(&self, workspace: &WorkspaceId, source: &str, status: &'static str) {
        let mut events = self.events.lock().expect("no holder panics");
        let series = (workspace.to_string(), source.to_owned(), status);
        match events.len() >= MAX_SOURCE_SERIES && !events.contains_key(&series) {
            true => *events.entry((String::new(), String::new(), status)).or_default() += 1,
            false => *events.entry(series).or_default() += 1,
        }
    }

    pub(super) fn refuse(&self, reason: &'static str) {
        *self.refused.lock().expect("no holder panics").entry(reason).or_default() += 1;
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Received webhooks by source and result: applied, ignored, unmatched, failed, or duplicate. An event that is \
                    processed again counts again.";
        let mut family = out.family("hapax_webhook_events_total", "counter", help);
        for ((workspace, source, status), count) in &*self.events.lock().expect("no holder panics") {
            family.count(&[("workspace", workspace), ("source", source), ("status", status)], *count);
        }
        let help = "Rejected webhooks by reason; their senders do not see it.";
        let mut family = out.family("hapax_webhooks_refused_total", "counter", help);
        let refused = self.refused.lock().expect("no holder panics");
        for reason in DISBELIEVED.into_iter().chain(REFUSED) {
            family.count(&[("reason", reason)], refused.get(reason).copied().unwrap_or_default());
        }
    }
}
