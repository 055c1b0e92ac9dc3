//! Live history of a run, as server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use hapax_api::{Code, Problem};
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Name, RunId, Timestamp, Version};
use hapax_engine::{Engine, Error};
use serde::Serialize;
use tokio::sync::watch;

use crate::app::App;
use crate::credentials::key::ApiKey;
use crate::drain::Draining;
use crate::identity::Identity;
use crate::limits::{
    MAX_STREAMS, MAX_STREAMS_PER_CREDENTIAL, STREAM_KEEP_ALIVE, STREAM_LIFETIME, STREAM_POLL, STREAM_POLL_MAX,
};
use crate::mask::HiddenValues;
use crate::translate::{event_to_api, run_to_api, steps_to_api};

/// Open streams, by credential.
#[derive(Debug, Clone, Default)]
pub struct Streams(Arc<Mutex<HashMap<Name, usize>>>);

/// Permit for one open stream, released when dropped.
#[derive(Debug)]
pub struct StreamPermit {
    streams: Streams,
    credential: Name,
}

impl Streams {
    /// Takes a permit, if one is left.
    pub fn take(&self, credential: &Name) -> Result<StreamPermit, Problem> {
        let mut open = self.0.lock().expect("no holder panics");
        let own = open.get(credential).copied().unwrap_or(0);
        if own >= MAX_STREAMS_PER_CREDENTIAL || open.values().sum::<usize>() >= MAX_STREAMS {
            let detail = format!(
                "A credential may keep {MAX_STREAMS_PER_CREDENTIAL} streams open, and the server {MAX_STREAMS}. Close one, or read the events page by page."
            );
            return Err(Problem::new(Code::TooManyStreams, detail).retry_after(5));
        }
        open.insert(credential.clone(), own + 1);
        Ok(StreamPermit { streams: self.clone(), credential: credential.clone() })
    }

    /// Number of open streams.
    pub fn count(&self) -> usize {
        self.0.lock().expect("no holder panics").values().sum()
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock().expect("no holder panics");
        if let Some(count) = open.get_mut(&self.credential) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.credential);
            }
        }
    }
}

/// Right to follow a run. It ends with the caller's key or token.
struct FollowRight {
    app: Arc<App>,
    /// Absent for a session of the console, which looks by itself.
    key: Option<ApiKey>,
    /// When the caller's token ends, if they came with one.
    ends_at: Option<Timestamp>,
    changes: watch::Receiver<u64>,
}

impl FollowRight {
    /// If the key cannot be checked, the right counts as lost, and the client reconnects.
    async fn is_lost(&mut self) -> bool {
        self.changes.mark_unchanged();
        let now = self.app.store.now();
        if self.ends_at.is_some_and(|at| now >= at) {
            return true;
        }
        let Some(key) = &self.key else { return false };
        !self.app.authenticator.still_admits(key, now).await.unwrap_or(false)
    }
}

struct Follower {
    engine: Engine,
    /// Values hidden from the caller.
    hidden: Option<HiddenValues>,
    right: FollowRight,
    run: RunId,
    seen: Version,
    queue: std::collections::VecDeque<Event>,
    pause: std::time::Duration,
    is_over: bool,
    since: tokio::time::Instant,
    draining: Draining,
    _seat: StreamPermit,
}

/// Events of a run after the version `seen`. The stream ends when the run ends, the server stops,
/// the key becomes invalid, or the stream reaches its maximum lifetime. The client then reconnects
/// with `Last-Event-ID`.
pub(crate) fn stream_run(
    app: Arc<App>,
    engine: Engine,
    key: Option<ApiKey>,
    identity: &Identity,
    run: RunId,
    seen: Version,
    seat: StreamPermit,
) -> impl IntoResponse {
    let (draining, changes) = (app.options.draining.clone(), app.authenticator.changes());
    let ends_at = identity.ends_at;
    let hidden = match identity.sees_payloads {
        true => app.definitions.sensitive_names(&identity.workspace).map(HiddenValues::Fields),
        false => Some(HiddenValues::Payloads),
    };
    let follower = Follower {
        engine,
        hidden,
        right: FollowRight { app, key, ends_at, changes },
        run,
        seen,
        queue: std::collections::VecDeque::new(),
        pause: STREAM_POLL,
        is_over: false,
        since: tokio::time::Instant::now(),
        draining,
        _seat: seat,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        loop {
            if let Some(event) = follower.queue.pop_front() {
                return Some((Ok::<_, Infallible>(event), follower));
            }
            if follower.is_over || follower.since.elapsed() > STREAM_LIFETIME {
                return None;
            }
            if follower.right.is_lost().await
                || follower.look().await.is_err()
                || follower.draining.has_begun()
            {
                return None;
            }
            if follower.queue.is_empty() && !follower.is_over {
                let mut draining = follower.draining.clone();
                tokio::select! {
                    () = tokio::time::sleep(follower.pause) => {}
                    // The authenticator lives as long as the app, so this is no error.
                    _ = follower.right.changes.changed() => {}
                    _ = draining.begun() => return None,
                }
                follower.pause = (follower.pause * 2).min(STREAM_POLL_MAX);
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(STREAM_KEEP_ALIVE))
}

impl Follower {
    /// Data of one event, without what the caller may not see.
    fn data<T: Serialize>(&self, value: &T) -> String {
        let text = serde_json::to_string(value).unwrap_or_default();
        match &self.hidden {
            Some(hidden) => hidden.text(text),
            None => text,
        }
    }

    /// Reads new events of the run, and queues them.
    async fn look(&mut self) -> Result<(), Error> {
        let view = self.engine.get(self.run).await?;
        let version = view.head.version;
        if version > self.seen {
            self.pause = STREAM_POLL;
            let log = self.engine.get_log(self.run).await?;
            let events = self.engine.list_events(self.run, self.seen).await?;
            // The history comes in pages, and the log may be newer than the view. Later events are
            // sent in the next round.
            let upto = match events.last() {
                Some(last) if events.len() >= MAX_PAGE => last.version.min(version),
                _ => version,
            };
            let mut told: Vec<(u64, Event)> = Vec::new();
            for event in events.iter().filter(|event| event.version <= upto) {
                let data = self.data(&event_to_api(event));
                told.push((event.version.get(), Event::default().event("run").data(data)));
            }
            for step in steps_to_api(&log) {
                if step.changed_version > self.seen.get() && step.changed_version <= upto.get() {
                    let data = self.data(&step);
                    told.push((step.changed_version, Event::default().event("step").data(data)));
                }
            }
            told.sort_by_key(|(version, _)| *version);
            // Only the last event of a version carries its number: a client that was cut off
            // earlier receives all of them again.
            let mut told = told.into_iter().peekable();
            while let Some((version, event)) = told.next() {
                let is_last = told.peek().is_none_or(|(next, _)| *next != version);
                self.queue.push_back(if is_last { event.id(version.to_string()) } else { event });
            }
            self.seen = upto;
            if upto < version {
                return Ok(());
            }
        }
        if view.head.status().is_closed() {
            let data = self.data(&run_to_api(&view, None));
            self.queue.push_back(Event::default().event("end").id(version.to_string()).data(data));
            self.is_over = true;
        }
        Ok(())
    }
}
