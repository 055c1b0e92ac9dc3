//! Tracks an effect while its step is in progress, so that one that may have happened is never lost, even
//! when its code is dropped.

use std::sync::{Mutex, PoisonError};

use super::claimed::{Claim, ClaimedStep};
use super::scope::{Scope, Undo};
use super::step::Effect;
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::runtime::Activation;

/// Attempt of a step in doubt.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoubtedStep {
    pub(super) kind: StepKind,
    pub(super) attempts: u32,
    pub(super) began: Timestamp,
}

/// Progress of an effect.
#[derive(Debug, Clone)]
pub(super) enum Progress {
    /// The effect did not happen, as far as this process knows.
    NotBegun,
    /// The previous holder vanished and may have begun this attempt without a record.
    Unrecorded { attempt: u32 },
    /// The start is recorded, or about to be. The code did not run yet.
    Marked { attempts: u32, began: Timestamp },
    /// The code has started, and its outcome is unknown.
    MayHaveHappened { attempts: u32, began: Timestamp },
    /// The step is recorded as in doubt.
    InDoubt { attempts: u32, began: Timestamp },
    /// The effect happened.
    Done(Payload),
    /// Nothing is left to do.
    Over,
}

/// Tracks one step from its start to its end. If its code is dropped in between, an effect that may have
/// happened is left for undo.
pub(super) struct EffectTracker<'a> {
    activation: &'a Activation,
    scope: &'a Scope,
    effect: &'a Effect,
    pub(super) undo: Option<&'a Undo>,
    progress: Mutex<Progress>,
}

impl<'a> EffectTracker<'a> {
    pub(super) fn new(
        activation: &'a Activation,
        scope: &'a Scope,
        effect: &'a Effect,
        undo: Option<&'a Undo>,
    ) -> Self {
        EffectTracker { activation, scope, effect, undo, progress: Mutex::new(Progress::NotBegun) }
    }

    pub(super) fn set(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    fn leave_in_doubt(&self, undo: &Undo, attempts: u32, began: Timestamp) {
        let doubted = DoubtedStep { kind: self.effect.kind, attempts, began };
        self.scope.push_in_doubt(self.effect.id.clone(), doubted, undo.clone());
    }

    /// Records that no code waits for the effect any more. An effect without undo is not resolved, but it is
    /// counted.
    fn give_up(&self, progress: &Progress) {
        let (effect, activation) = (self.effect, self.activation);
        let now = activation.now();
        let (is_in_turn, is_ending) = {
            let replay = activation.replay();
            (replay.in_turn, replay.ending)
        };
        // If the engine drops the code of a run that continues, the next holder finds the state in the
        // records.
        if effect.kind != StepKind::Effect || !(is_in_turn || is_ending) {
            return;
        }
        let (transition, attempts, began) = match progress {
            Progress::MayHaveHappened { attempts, began } => (StepTransition::Cancel, *attempts, *began),
            Progress::Marked { attempts, began } => (StepTransition::Withdraw, *attempts, *began),
            Progress::Unrecorded { attempt } => (StepTransition::Cancel, *attempt, now),
            Progress::NotBegun | Progress::InDoubt { .. } | Progress::Done(_) | Progress::Over => return,
        };
        activation.queue([effect.change(transition, StepState::Cancelled { at: now }, attempts, began)]);
    }
}

impl Drop for EffectTracker<'_> {
    fn drop(&mut self) {
        let progress = std::mem::replace(
            self.progress.get_mut().unwrap_or_else(PoisonError::into_inner),
            Progress::Over,
        );
        let activation = self.activation;
        let Some(undo) = self.undo else {
            self.give_up(&progress);
            return;
        };
        // If the engine drops the code, the next holder of the run finds the state in the records.
        let is_dropped_by_code = activation.replay().in_turn;
        match progress {
            Progress::Done(output) => self.scope.push_done(self.effect.id.clone(), output, undo.clone()),
            Progress::InDoubt { attempts, began } => self.leave_in_doubt(undo, attempts, began),
            Progress::MayHaveHappened { attempts, began } if is_dropped_by_code => {
                let claim = Claim::<serde_json::Value>::default();
                let failure = Failure::unknown("it was dropped in the middle").with_code("cut_off");
                ClaimedStep::about(self.effect, activation, &claim, Some(undo), attempts, began)
                    .doubt(activation.now(), failure);
                self.leave_in_doubt(undo, attempts, began);
            }
            Progress::Marked { attempts, began } if is_dropped_by_code => {
                let state = StepState::Cancelled { at: activation.now() };
                activation.queue([self.effect.change(StepTransition::Withdraw, state, attempts, began)]);
            }
            Progress::MayHaveHappened { .. }
            | Progress::Marked { .. }
            | Progress::NotBegun
            | Progress::Unrecorded { .. }
            | Progress::Over => {}
        }
    }
}
