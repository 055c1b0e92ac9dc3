//! Metrics in the Prometheus format.
//!
//! The counts are plain atomics, and [`exposition`] writes the text. Nearly every figure already
//! lives elsewhere (the engine's counts, the store), so a metrics registry would only be a second
//! place for them.

mod exposition;
mod figures;
mod key_counts;
mod route_counts;
mod settlement_counts;
mod webhook_counts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_engine::Error;
use hapax_engine::model::{IdempotencyKey, PromiseRef, RepeatCount, RequestScope, Timestamp, WorkspaceId};
use hapax_engine::runtime::{BackgroundLoop, SettlePromiseOutcome, Stats};
use hapax_engine::store::{KeyRef, KeyUsage, KeyUsageDelta, Store};
use hapax_http_idempotency::{Event, Observe};
use http::{Method, StatusCode};

use crate::app::App;
use crate::identity::Identity;
use crate::limits::{KEY_USES_FLUSHED_EVERY, MAX_PENDING_KEY_USES};
use crate::otlp;
use exposition::Exposition;
use figures::{Figures, StoreReading};
use key_counts::KeyCounts;
pub(crate) use key_counts::{KeyOf, KeyUse};
use route_counts::RouteCounts;
use settlement_counts::SettlementCounts;
use webhook_counts::WebhookCounts;

/// Metrics of the server.
#[derive(Debug)]
pub struct Metrics {
    store: Arc<dyn Store>,
    started_at: SystemTime,
    routes: RouteCounts,
    keys: KeyCounts,
    settlements: SettlementCounts,
    webhooks: WebhookCounts,
    figures: Figures,
    /// Use of run keys since the last write.
    uses: Mutex<BTreeMap<KeyRef, KeyUsage>>,
    uses_lost: AtomicU64,
}

impl Metrics {
    /// Creates empty metrics with a series for each of these routes.
    pub fn new(store: Arc<dyn Store>, routes: impl IntoIterator<Item = &'static str>) -> Self {
        Metrics {
            figures: Figures::new(store.clone()),
            store,
            started_at: SystemTime::now(),
            routes: RouteCounts::new(routes),
            keys: KeyCounts::default(),
            settlements: SettlementCounts::default(),
            webhooks: WebhookCounts::default(),
            uses: Mutex::default(),
            uses_lost: AtomicU64::new(0),
        }
    }

    /// Counts a response. `route` is the template, `None` for an unknown route.
    pub(crate) fn answered(&self, method: &Method, route: Option<&str>, status: StatusCode, took: Duration) {
        self.routes.count(method, route, status, took);
    }

    /// Counts a new run with a key in its body.
    pub(crate) fn run_key_taken(&self, identity: &Identity, key: Option<&str>) {
        if key.is_some() {
            self.keys.count_business_key(KeyOf::Run, &identity.request_scope(), KeyUse::New);
        }
    }

    /// Counts a key in a body that found its run.
    pub(crate) fn run_key_replayed(&self, identity: &Identity, key: Option<&str>) {
        self.used(identity, key, KeyUse::Replayed);
    }

    /// Counts a key in a body that names a different run.
    pub(crate) fn run_key_conflicted(&self, identity: &Identity, key: Option<&str>) {
        self.used(identity, key, KeyUse::Conflicted);
    }

    fn used(&self, identity: &Identity, key: Option<&str>, usage: KeyUse) {
        let Some(Ok(key)) = key.map(IdempotencyKey::new) else { return };
        self.keys.count_business_key(KeyOf::Run, &identity.request_scope(), usage);
        self.note_use(KeyRef::Run { workspace: identity.workspace.clone(), key }, usage);
    }

    /// Counts a caller's key as new, replayed or in conflict.
    pub(crate) fn key_used(&self, identity: &Identity, of: KeyOf, usage: KeyUse) {
        self.keys.count_business_key(of, &identity.request_scope(), usage);
    }

    /// Counts a request to settle a promise.
    pub(crate) fn settled(
        &self,
        workspace: &WorkspaceId,
        promise: &PromiseRef,
        answer: &Result<SettlePromiseOutcome, Error>,
    ) {
        self.settlements.count(answer);
        let PromiseRef::Key(key) = promise else { return };
        let place = KeyRef::Promise { workspace: workspace.clone(), key: key.clone() };
        match answer {
            Ok(SettlePromiseOutcome::AlreadySettled(_)) => self.note_use(place, KeyUse::Replayed),
            Err(Error::AlreadySettled) => self.note_use(place, KeyUse::Conflicted),
            _ => {}
        }
    }

    fn note_use(&self, place: KeyRef, usage: KeyUse) {
        let mut all = self.uses.lock().expect("no holder panics");
        if all.len() >= MAX_PENDING_KEY_USES && !all.contains_key(&place) {
            self.uses_lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let counted = all.entry(place).or_default();
        match usage {
            KeyUse::Replayed => counted.replays += 1,
            KeyUse::Conflicted => counted.conflicts += 1,
            KeyUse::New => {}
        }
    }

    /// Counts the outcome of a received webhook.
    pub(crate) fn webhook(&self, workspace: &WorkspaceId, source: &str, status: &'static str) {
        self.webhooks.count(workspace, source, status);
    }

    /// Counts a rejected webhook.
    pub(crate) fn webhook_refused(&self, reason: &'static str) {
        self.webhooks.refuse(reason);
    }

    /// Writes the use of keys in bodies.
    pub async fn flush(&self) {
        let uses = std::mem::take(&mut *self.uses.lock().expect("no holder panics"));
        if uses.is_empty() {
            return;
        }
        let uses: Vec<KeyUsageDelta> =
            uses.into_iter().map(|(place, uses)| KeyUsageDelta { place, uses }).collect();
        let Some(book) = self.store.request_key_store() else { return };
        for uses in uses.chunks(hapax_engine::limits::MAX_KEY_USAGE_BATCH) {
            if let Err(error) = book.add_key_usage(uses.to_vec()).await {
                // It is not always known if they were written, and a low count is better than a
                // high one.
                let lost: u64 = uses.iter().map(|use_of| use_of.uses.replays + use_of.uses.conflicts).sum();
                self.uses_lost.fetch_add(lost, Ordering::Relaxed);
                tracing::warn!(%error, lost, "the use of keys could not be written");
            }
        }
    }

    /// Writes the use of keys at most once a second, for as long as the metrics are in use.
    pub(crate) async fn keep_flushing(metrics: Weak<Metrics>, pass: impl Fn()) {
        loop {
            tokio::time::sleep(KEY_USES_FLUSHED_EVERY).await;
            let Some(metrics) = metrics.upgrade() else { return };
            metrics.flush().await;
            pass();
        }
    }

    /// All metrics in the Prometheus format.
    pub(crate) async fn render(&self, app: &App) -> String {
        let reading = self.figures.read(&app.entities).await;
        let mut out = Exposition::default();
        self.write_process(&mut out, app);
        self.routes.write(&mut out);
        self.keys.write(&mut out);
        self.settlements.write(&mut out);
        self.webhooks.write(&mut out);
        write_engine(&mut out, &app.engine.stats());
        write_loops(&mut out, &app.engine.background_loops().list(), app.engine.clock().now());
        out.gauge("hapax_active_runs", "Runs this process drives now.", app.engine.active_runs() as f64);
        out.gauge(
            "hapax_retention_behind_seconds",
            "Time since all expired data was last deleted. More than a few minutes: housekeeping does not keep up.",
            app.engine.retention_lag().as_secs_f64(),
        );
        write_store(&mut out, &reading, app.store_probe.is_writable(), self.store.now());
        out.finish()
    }

    fn write_process(&self, out: &mut Exposition, app: &App) {
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        out.family("hapax_build_info", "gauge", "Version of this server; the value is always 1.")
            .sample(&labels, 1.0);
        let began = self.started_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        out.gauge("hapax_process_start_time_seconds", "When this server was started, as a Unix time.", began);
        out.gauge("hapax_definitions", "Workflow definitions known here.", app.definitions.count() as f64);
        out.gauge("hapax_entity_workflows", "Entity workflows known here.", app.entities.count() as f64);
        out.gauge("hapax_event_streams_open", "Live event streams open now.", app.streams.count() as f64);
        out.counter(
            "hapax_key_uses_uncounted_total",
            "Uses of run and promise keys that could not be written, so a key lookup does not show them.",
            self.uses_lost.load(Ordering::Relaxed),
        );
        out.counter(
            "hapax_trace_spans_exported_total",
            "Spans that an OTLP receiver accepted.",
            otlp::count_exported(),
        );
        out.counter(
            "hapax_trace_spans_dropped_total",
            "Spans that were not exported: too many at once, or the receiver rejected them.",
            otlp::count_dropped(),
        );
    }
}

/// Background loops: how often each panicked, and when it last finished a pass.
fn write_loops(out: &mut Exposition, loops: &[BackgroundLoop], now: Timestamp) {
    let mut panics = out.family(
        "hapax_background_loop_panics_total",
        "counter",
        "Panics of a background loop; each was followed by a restart.",
    );
    for each in loops {
        panics.sample(&[("loop", &each.name)], each.panics as f64);
    }
    let mut pass = out.family(
        "hapax_background_loop_last_pass_seconds",
        "gauge",
        "Time since a background loop last finished a pass.",
    );
    for each in loops {
        if let Some(at) = each.last_pass_at {
            pass.sample(&[("loop", &each.name)], now.since(at).as_secs_f64());
        }
    }
}

/// The engine's counts since this process started.
fn write_engine(out: &mut Exposition, stats: &Stats) {
    let counts = [
        ("hapax_runs_created_total", "Runs created here, by a start or as children.", stats.created),
        ("hapax_starts_replayed_total", "Starts that found their run, by key or run id.", stats.duplicates),
        (
            "hapax_conflicts_total",
            "Starts and settlements rejected because a key or promise had different content.",
            stats.conflicts,
        ),
        ("hapax_lease_claims_total", "Leases granted on due runs.", stats.claims),
        (
            "hapax_lease_takeovers_total",
            "Leases taken over from a holder that vanished, or that did not renew in time.",
            stats.takeovers,
        ),
        (
            "hapax_leases_given_up_total",
            "Runs given up here because their lease could not be kept: the store did not answer in time.",
            stats.self_fenced,
        ),
        ("hapax_clock_jumps_total", "Jumps of the clock of this machine or of the store.", stats.clock_jumps),
        (
            "hapax_driver_panics_total",
            "Runs released because their driver panicked outside workflow code: an announcer or a destructor.",
            stats.driver_panics,
        ),
        (
            "hapax_fenced_writes_total",
            "Writes refused because another holds the lease: a late writer was kept out.",
            stats.fenced_writes,
        ),
        ("hapax_stale_writes_total", "Writes sent again because the run had changed.", stats.stale_writes),
        (
            "hapax_unconfirmed_writes_total",
            "Writes whose confirmation was lost, settled by sending them again.",
            stats.unknown_resolved,
        ),
        ("hapax_run_replays_total", "Runs rebuilt from their records.", stats.replays),
        (
            "hapax_runs_resumed_in_memory_total",
            "Parked runs that went on in memory.",
            stats.resumed_in_memory,
        ),
        ("hapax_runs_closed_total", "Runs that ended here.", stats.closed),
        ("hapax_effects_total", "Times the code of an effect was entered.", stats.effects),
        ("hapax_step_retries_total", "Attempts that failed and will be made again.", stats.retries),
        ("hapax_doubts_total", "Times an effect became in doubt.", stats.doubts),
        (
            "hapax_early_settlements_expired_total",
            "Settlements that were kept for a promise that was never created.",
            stats.early_expired,
        ),
        ("hapax_operations_total", "Operations on entities begun here.", stats.operations),
        (
            "hapax_claims_lost_total",
            "Steps rejected because another operation was in progress with the entity.",
            stats.claims_lost,
        ),
        (
            "hapax_janitor_releases_total",
            "Claims that a janitor here released, because their holder was silent for too long.",
            stats.janitor_releases,
        ),
        ("hapax_purged_rows_total", "Expired rows deleted here.", stats.purged),
        ("hapax_after_effects_delivered_total", "After-effects delivered.", stats.delivered),
        (
            "hapax_after_effect_failures_total",
            "Attempts to deliver an after-effect that failed.",
            stats.undelivered,
        ),
        (
            "hapax_after_effects_given_up_total",
            "After-effects given up here: their last attempt failed, or no attempt could succeed.",
            stats.given_up,
        ),
    ];
    for (name, help, count) in counts {
        out.counter(name, help, count);
    }
}

/// Name, help text and reading of one of the two counts.
type Repeats = (&'static str, &'static str, fn(&RepeatCount) -> u64);

/// Both are computed from the journal, like the ledger, so every node reports the same numbers,
/// also after a restart.
const REPEATS: [Repeats; 2] = [
    (
        "hapax_effects_happened_twice",
        "Times an effect is known to have happened beyond the first, over the effects in the ledger. Of class idempotent the provider makes \
         them one by key.",
        |count| count.happened_twice,
    ),
    (
        "hapax_effects_may_have_happened_twice",
        "Further times an effect may have happened beyond the first: an attempt was made although an earlier one may have happened. \
         For the class idempotent, the provider deduplicates them by key.",
        |count| count.may_have_happened_twice,
    ),
];

/// Contents of the store at the last reading, over all workspaces; left out before the first one.
fn write_store(out: &mut Exposition, reading: &StoreReading, is_writable: bool, now: Timestamp) {
    let is_up = f64::from(u8::from(reading.is_up && is_writable));
    out.gauge(
        "hapax_store_up",
        "Could the store be read for this scrape, and written to a moment ago? 1 or 0.",
        is_up,
    );
    let Some(figures) = &reading.figures else { return };
    let age = |since: Option<Timestamp>| since.map_or(0.0, |since| now.since(since).as_secs_f64());
    out.gauge(
        "hapax_store_figures_age_seconds",
        "Age of the figures about the store: hapax_effects_*_twice, hapax_runs_needing_attention, hapax_steps_in_doubt, hapax_operations_in_doubt, hapax_oldest_*, hapax_outbox_*.",
        reading.age.as_secs_f64(),
    );
    for (name, help, of) in REPEATS {
        let mut family = out.family(name, "gauge", help);
        for (class, count) in &figures.repeats {
            family.sample(&[("class", class.as_str())], of(count) as f64);
        }
    }
    let help = "Runs that wait for a person to act, by reason; of paused runs, the newest 100 of a workspace are counted.";
    let mut family = out.family("hapax_runs_needing_attention", "gauge", help);
    for (reason, count) in &figures.needing_attention {
        family.sample(&[("reason", reason.as_str())], *count as f64);
    }
    out.gauge("hapax_steps_in_doubt", "Steps in doubt now, counted up to 1000.", figures.doubts as f64);
    out.gauge(
        "hapax_oldest_doubt_age_seconds",
        "How long the oldest doubt has waited; 0 if there is none.",
        age(figures.oldest_doubt_at),
    );
    out.gauge(
        "hapax_operations_in_doubt",
        "Operations on entities with an unknown outcome, counted up to 1000 in each workspace.",
        figures.operations_in_doubt as f64,
    );
    out.gauge(
        "hapax_oldest_operation_in_doubt_age_seconds",
        "How long the oldest operation in doubt has waited; 0 if there is none.",
        age(figures.oldest_operation_in_doubt_at),
    );
    out.gauge(
        "hapax_oldest_request_key_age_seconds",
        "Age of the oldest request key that is still kept; 0 if there is none.",
        age(figures.oldest_request_at),
    );
    out.gauge(
        "hapax_outbox_depth",
        "After-effects that wait to be delivered, counted up to 10000.",
        figures.outbox.undelivered as f64,
    );
    out.gauge(
        "hapax_outbox_oldest_age_seconds",
        "Age of the oldest after-effect that waits; 0 if there is none.",
        age(figures.outbox.oldest_at),
    );
    out.gauge(
        "hapax_outbox_late_seconds",
        "How long the most overdue after-effect has been due; 0 if none is due. A failed one is due at its next attempt.",
        age(figures.outbox.first_due_at),
    );
    out.gauge(
        "hapax_oldest_due_run_age_seconds",
        "How long the most overdue run has been due without a node taking it, or since the lease of its holder ended; 0 if none is due.",
        age(figures.longest_due_at),
    );
    out.gauge(
        "hapax_oldest_unprocessed_webhook_age_seconds",
        "How long the oldest accepted webhook has waited to be processed; 0 if there is none.",
        age(figures.oldest_unprocessed_hook_at),
    );
    out.gauge(
        "hapax_outbox_dead",
        "After-effects given up, which people can redeliver; counted up to 10000.",
        figures.outbox.dead as f64,
    );
}

/// Observer that counts the use of request keys.
pub(crate) struct KeysObserved(pub(crate) Arc<Metrics>);

impl Observe for KeysObserved {
    fn saw(&self, scope: &RequestScope, event: Event) {
        self.0.keys.count_request_key(scope, event);
    }
}
