//! Support for code that runs a workflow elsewhere: the records to replay, and ways to give the run back.

use std::sync::{Arc, Weak};

use super::{Ctx, Home};
use crate::model::{EffectKey, PendingRequest, StepId, StepKind, StepRecord};
use crate::runtime::Activation;
use crate::runtime::replay_state::Stop;

/// A record that the code of the run has not asked for yet.
#[derive(Debug, Clone)]
pub struct RecordedStep {
    /// The record.
    pub record: StepRecord,
    /// True if its outcome has a place in the order of outcomes.
    pub is_ordered: bool,
}

impl Ctx {
    /// Records that the code has not asked for yet. Those without a place in the order of outcomes come first. Undone
    /// effects are not among them, because the code never asks for them.
    ///
    /// Called before the code asks for anything, it returns the whole history of this generation.
    pub fn list_recorded(&self) -> Vec<RecordedStep> {
        let Home::Engine(engine) = &self.home else { return Vec::new() };
        let replay = engine.activation.replay();
        let asked_for = replay.recorded_steps().filter(|record| record.kind != StepKind::Undo);
        let mut recorded: Vec<RecordedStep> = asked_for
            .map(|record| {
                let is_value = matches!(record.kind, StepKind::Value | StepKind::Select);
                let has_outcome = record.state.status().has_outcome();
                RecordedStep { record: record.clone(), is_ordered: has_outcome && !is_value }
            })
            .collect();
        recorded.sort_by_key(|step| match step.is_ordered {
            true => (true, step.record.changed_version, step.record.started_version),
            false => (false, step.record.started_version, step.record.changed_version),
        });
        recorded
    }

    /// Beginning of the effect keys of this run and generation: a colon and the id of a step follow.
    pub fn effect_key_prefix(&self) -> String {
        let engine = match &self.home {
            Home::Engine(engine) => engine,
            Home::Server(worker) => return worker.machine.facts.key_prefix.clone(),
        };
        let key = EffectKey::new(self.run_id(), engine.activation.generation, &StepId::from_stored(""));
        key.as_str().trim_end_matches(':').to_string()
    }

    /// Drops a branch that lost a race. Waits that only it waited for are cancelled.
    pub fn abandon<F>(&self, branch: F) {
        let Home::Engine(engine) = &self.home else {
            drop(branch);
            return;
        };
        let activation = &engine.activation;
        let waiting = activation.waiting_steps();
        drop(branch);
        let left = activation.waiting_steps();
        let given_up = waiting.difference(&left).cloned();
        activation.queue(given_up.map(crate::runtime::pending_change::PendingChange::CancelIfOpen));
    }

    /// Why the code of the run was dropped before its end, if it was. Its effects may still be undone.
    pub fn dropped_because(&self) -> Option<DropReason> {
        let Home::Engine(engine) = &self.home else { return None };
        let replay = engine.activation.replay();
        let is_cancelled = replay.head.asked == PendingRequest::Cancel;
        replay.ending.then_some(if is_cancelled { DropReason::Cancelled } else { DropReason::DeadlinePassed })
    }

    /// Returns a handle that gives the run back. It does not keep the run in memory.
    pub fn return_handle(&self) -> ReturnHandle {
        match &self.home {
            Home::Engine(engine) => ReturnHandle(Arc::downgrade(&engine.activation)),
            Home::Server(_) => ReturnHandle(Weak::new()),
        }
    }
}

/// Why the code of a run was dropped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The run was cancelled.
    Cancelled,
    /// The run did not end by its deadline.
    DeadlinePassed,
}

/// Gives a run back from outside its code. Each method does nothing if the run is no longer in memory.
#[derive(Clone)]
pub struct ReturnHandle(Weak<Activation>);

impl ReturnHandle {
    /// Gives the run back as soon as no attempt is under way: its lease is released, and the next claim runs
    /// the code again from the top. Shields do not keep the run.
    pub fn give_back(&self) {
        let Some(activation) = self.0.upgrade() else { return };
        let mut replay = activation.replay();
        replay.stop.get_or_insert(Stop::Release);
        replay.is_given_back = true;
        drop(replay);
        activation.wake_all();
    }

    /// Pauses the run as soon as no attempt is under way, for a reason that people can read. After a resume the code runs
    /// again from the top. A run that must end fails instead, because nothing can undo its effects.
    pub fn pause(&self, reason: String) {
        let Some(activation) = self.0.upgrade() else { return };
        let mut replay = activation.replay();
        match replay.must_end() {
            true => drop(replay.violation.get_or_insert(reason)),
            false if matches!(replay.stop, None | Some(Stop::Release)) => {
                replay.stop = Some(Stop::Exhausted);
                replay.exhausted = Some(reason);
                replay.is_given_back = true;
            }
            false => replay.is_given_back = true,
        }
        drop(replay);
        activation.wake_all();
    }
}

impl std::fmt::Debug for ReturnHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReturnHandle")
    }
}
