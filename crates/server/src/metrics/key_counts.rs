//! Use of idempotency keys: in total, and by credential, so that a credential with unusually many
//! retries stands out.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_engine::model::RequestScope;
use hapax_http_idempotency::Event;

use super::exposition::Exposition;
use crate::limits::MAX_CREDENTIAL_SERIES;

/// Label for credentials without a series of their own.
const OTHERS: &str = "other";

/// How a key was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    New,
    Replayed,
    Conflicted,
}

const USES: [(KeyUse, &str); 3] =
    [(KeyUse::New, "new"), (KeyUse::Replayed, "replayed"), (KeyUse::Conflicted, "conflicted")];

type Counts = [u64; USES.len()];

/// Kind of object that a business key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOf {
    Run,
    Operation,
    Promise,
    Signal,
}

/// Each kind with its metric and its help text.
const KINDS: [(KeyOf, &str, &str); 4] = [
    (
        KeyOf::Run,
        "hapax_run_key_events_total",
        "Run keys (idempotencyKey of a start) by result: a new run, the run found again, or a conflict.",
    ),
    (
        KeyOf::Operation,
        "hapax_operation_key_events_total",
        "Operation keys (idempotencyKey of an entity step) by result: a new operation, the operation found again, or a conflict.",
    ),
    (
        KeyOf::Promise,
        "hapax_promise_key_events_total",
        "Promise keys, in creations and settlements, by result: new, the same again, or a conflict.",
    ),
    (
        KeyOf::Signal,
        "hapax_signal_key_events_total",
        "Signals with a signalId by result: stored, or stored before. They have no conflicts.",
    ),
];

#[derive(Debug, Default)]
pub(super) struct KeyCounts {
    request_keys: [AtomicU64; Event::ALL.len()],
    business_keys: [[AtomicU64; USES.len()]; KINDS.len()],
    by_credential: Mutex<ByCredential>,
}

#[derive(Debug, Default)]
struct ByCredential {
    known: HashMap<RequestScope, Counts>,
    others: Counts,
}

impl KeyCounts {
    pub(super) fn count_request_key(&self, scope: &RequestScope, event: Event) {
        self.request_keys[event as usize].fetch_add(1, Ordering::Relaxed);
        match event {
            Event::Began => self.count_by_credential(scope, KeyUse::New),
            Event::Replayed => self.count_by_credential(scope, KeyUse::Replayed),
            Event::Conflicted => self.count_by_credential(scope, KeyUse::Conflicted),
            _ => {}
        }
    }

    pub(super) fn count_business_key(&self, of: KeyOf, scope: &RequestScope, usage: KeyUse) {
        self.business_keys[of as usize][usage as usize].fetch_add(1, Ordering::Relaxed);
        self.count_by_credential(scope, usage);
    }

    fn count_by_credential(&self, scope: &RequestScope, usage: KeyUse) {
        let mut all = self.by_credential.lock().expect("no holder panics");
        let is_full = all.known.len() >= MAX_CREDENTIAL_SERIES;
        if let Some(counts) = all.known.get_mut(scope) {
            counts[usage as usize] += 1;
        } else if is_full {
            all.others[usage as usize] += 1;
        } else {
            all.known.entry(scope.clone()).or_default()[usage as usize] += 1;
        }
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Requests with an Idempotency-Key by result: began is a new operation, replayed is a repeated response.";
        let mut family = out.family("hapax_request_key_events_total", "counter", help);
        for event in Event::ALL {
            let count = self.request_keys[event as usize].load(Ordering::Relaxed);
            family.count(&[("event", event.as_str())], count);
        }
        for (of, name, help) in KINDS {
            let mut family = out.family(name, "counter", help);
            for (usage, name) in USES {
                let count = self.business_keys[of as usize][usage as usize].load(Ordering::Relaxed);
                family.count(&[("event", name)], count);
            }
        }
        let help = "Uses of request keys and business keys by credential; credentials beyond the first thousand are counted as other.";
        let mut family = out.family("hapax_credential_key_uses_total", "counter", help);
        let all = self.by_credential.lock().expect("no holder panics");
        let mut known: Vec<_> = all.known.iter().collect();
        known.sort();
        for (scope, counts) in known {
            for (usage, name) in USES {
                let labels = [
                    ("workspace", scope.workspace.as_str()),
                    ("credential", scope.caller.as_str()),
                    ("use", name),
                ];
                family.count(&labels, counts[usage as usize]);
            }
        }
        for (usage, name) in USES {
            let labels = [("workspace", OTHERS), ("credential", OTHERS), ("use", name)];
            family.count(&labels, all.others[usage as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax_engine::model::{Name, WorkspaceId};

    use super::*;

    fn scope(number: usize) -> RequestScope {
        let workspace = WorkspaceId::new("acme").unwrap();
        RequestScope { workspace, caller: Name::new("credential", &format!("cred_{number}")).unwrap() }
    }

    /// S2.38: the rate is known per credential, in a bounded number of series.
    #[test]
    fn credentials_are_told_apart_until_there_are_too_many() {
        let counts = KeyCounts::default();
        for number in 0..MAX_CREDENTIAL_SERIES + 5 {
            counts.count_request_key(&scope(number), Event::Replayed);
        }
        counts.count_business_key(KeyOf::Operation, &scope(0), KeyUse::Replayed);
        let mut out = Exposition::default();
        counts.write(&mut out);
        let text = out.finish();
        let of = |credential: &str| {
            let wanted = format!("credential=\"{credential}\",use=\"replayed\"}} ");
            text.lines().find_map(|line| line.split_once(&wanted)).map(|(_, count)| count.to_owned())
        };
        assert_eq!(of("cred_0").as_deref(), Some("2"));
        assert_eq!(of("other").as_deref(), Some("5"));
        assert_eq!(of(&format!("cred_{MAX_CREDENTIAL_SERIES}")), None);
        assert!(text.contains("hapax_request_key_events_total{event=\"replayed\"} 1005"), "{text}");
    }
}
