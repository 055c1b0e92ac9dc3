//! Who receives after-effects here: the code behind each target, which may come and go.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Error;
use crate::hold::Hold;
use crate::limits::{MAX_DELIVERIES_PER_TARGET, MAX_DELIVERY};
use crate::model::{EffectKey, Failure, Name, OutboxMessage, Payload, RetryPolicy, Timestamp, WorkspaceId};

pub(super) type Delivering = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
pub(super) type Receive = Arc<dyn Fn(Delivery, Payload) -> Delivering + Send + Sync>;

/// One attempt to deliver an after-effect, as the target's code sees it.
#[derive(Debug, Clone)]
pub struct Delivery {
    id: EffectKey,
    workspace: WorkspaceId,
    attempt: u32,
    created_at: Timestamp,
    hold: Hold,
}

impl Delivery {
    /// The same in every attempt: hand it to the receiver, so that it can tell them to be one.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Whose it is. Targets are known by their names in all workspaces, so one that serves a single workspace looks here.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When what it tells of was committed.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// The right to deliver it. Hand it to whatever sends it, so that it is checked at the last moment.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(super) fn of(post: &OutboxMessage, hold: Hold) -> Self {
        Delivery {
            id: post.id.clone(),
            workspace: post.workspace.clone(),
            attempt: post.attempts,
            created_at: post.created_at,
            hold,
        }
    }
}

/// How a target wants to be served.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// How often and when to try again.
    pub retry: RetryPolicy,
    /// How many may be on their way at once.
    pub at_once: usize,
    /// How long one attempt may take.
    pub timeout: Duration,
}

impl Default for TargetOptions {
    /// Ten attempts over about a day, 16 at once, 30 s each.
    fn default() -> Self {
        let retry = RetryPolicy::default()
            .max_attempts(10)
            .first_wait(Duration::from_secs(5))
            .factor(4.0)
            .max_wait(Duration::from_secs(6 * 3600));
        TargetOptions { retry, at_once: 16, timeout: Duration::from_secs(30) }
    }
}

/// Who receives after-effects here.
#[derive(Default)]
pub(crate) struct Targets(RwLock<HashMap<Name, Arc<Target>>>);

pub(super) struct Target {
    pub(super) receive: Receive,
    pub(super) options: TargetOptions,
    pub(super) room: Arc<Semaphore>,
}

impl Target {
    pub(super) fn new(receive: Receive, options: TargetOptions) -> Self {
        let at_once = options.at_once.clamp(1, MAX_DELIVERIES_PER_TARGET);
        let options = TargetOptions { timeout: options.timeout.min(MAX_DELIVERY), ..options };
        Target { receive, options, room: Arc::new(Semaphore::new(at_once)) }
    }
}

impl Targets {
    pub(super) fn add(&self, name: Name, target: Target) -> Result<(), Error> {
        let mut targets = self.0.write().expect("no holder panics");
        match targets.contains_key(&name) {
            true => Err(Error::AlreadyRegistered(format!("target {name}"))),
            false => {
                targets.insert(name, Arc::new(target));
                Ok(())
            }
        }
    }

    /// Was it there?
    pub(super) fn remove(&self, name: &Name) -> bool {
        self.0.write().expect("no holder panics").remove(name).is_some()
    }

    pub(super) fn find(&self, name: &Name) -> Option<Arc<Target>> {
        self.0.read().expect("no holder panics").get(name).cloned()
    }

    /// How many more each target may be given.
    pub(super) fn room(&self) -> Vec<(Name, usize)> {
        let targets = self.0.read().expect("no holder panics");
        let room = targets.iter().map(|(name, target)| (name.clone(), target.room.available_permits()));
        let mut room: Vec<(Name, usize)> = room.filter(|(_, room)| *room > 0).collect();
        room.sort();
        room
    }
}
