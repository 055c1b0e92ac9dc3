//! Registry of targets: the code that receives after-effects. Targets can be added and removed.

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

/// One delivery attempt of an after-effect, as the target's code sees it.
#[derive(Debug, Clone)]
pub struct Delivery {
    id: EffectKey,
    workspace: WorkspaceId,
    attempt: u32,
    created_at: Timestamp,
    hold: Hold,
}

impl Delivery {
    /// Id of the after-effect, the same in every attempt. Pass it to the receiver, so that it can detect
    /// duplicates.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Workspace of the after-effect. Target names are shared by all workspaces, so a target for one
    /// workspace must check this.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Number of this attempt, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Time at which the after-effect was committed.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Right to deliver. Pass it to the code that sends, so that it is checked at the last moment.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(super) fn of(message: &OutboxMessage, hold: Hold) -> Self {
        Delivery {
            id: message.id.clone(),
            workspace: message.workspace.clone(),
            attempt: message.attempts,
            created_at: message.created_at,
            hold,
        }
    }
}

/// Options of a target.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// Retry policy.
    pub retry: RetryPolicy,
    /// Maximum number of concurrent deliveries.
    pub max_concurrent: usize,
    /// Time limit for one attempt.
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
        TargetOptions { retry, max_concurrent: 16, timeout: Duration::from_secs(30) }
    }
}

/// All registered targets.
#[derive(Default)]
pub(crate) struct Targets(RwLock<HashMap<Name, Arc<Target>>>);

pub(super) struct Target {
    pub(super) receive: Receive,
    pub(super) options: TargetOptions,
    pub(super) room: Arc<Semaphore>,
}

impl Target {
    pub(super) fn new(receive: Receive, options: TargetOptions) -> Self {
        let max_concurrent = options.max_concurrent.clamp(1, MAX_DELIVERIES_PER_TARGET);
        let options = TargetOptions { timeout: options.timeout.min(MAX_DELIVERY), ..options };
        Target { receive, options, room: Arc::new(Semaphore::new(max_concurrent)) }
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

    /// Removes a target. Returns whether it was registered.
    pub(super) fn remove(&self, name: &Name) -> bool {
        self.0.write().expect("no holder panics").remove(name).is_some()
    }

    pub(super) fn find(&self, name: &Name) -> Option<Arc<Target>> {
        self.0.read().expect("no holder panics").get(name).cloned()
    }

    /// Number of further deliveries that each target may take.
    pub(super) fn room(&self) -> Vec<(Name, usize)> {
        let targets = self.0.read().expect("no holder panics");
        let room = targets.iter().map(|(name, target)| (name.clone(), target.room.available_permits()));
        let mut room: Vec<(Name, usize)> = room.filter(|(_, room)| *room > 0).collect();
        room.sort();
        room
    }
}
