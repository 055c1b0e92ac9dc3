//! What is known of an effect while its step is under way, so that one which may have happened is never forgotten, whoever drops its code.

use std::sync::{Mutex, PoisonError};

use super::claimed::{Claim, Claimed};
use super::scope::{Scope, Undo};
use super::step::Effect;
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::runtime::Activation;

/// The attempt of a step that is in doubt.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoubtedStep {
    pub(super) kind: StepKind,
    pub(super) attempts: u32,
    pub(super) began: Timestamp,
}

/// How far an effect has come.
#[derive(Debug, Clone)]
pub(super) enum Progress {
    /// It did not happen, as far as this process knows.
    NotBegun,
    /// The holder before this one vanished, and may have begun this attempt without a record.
    Unrecorded { attempt: u32 },
    /// That it begins is on record, or about to be; its code was not entered.
    Marked { attempts: u32, began: Timestamp },
    /// Its code was entered, and its outcome is not known.
    MayHaveHappened { attempts: u32, began: Timestamp },
    /// Its step is in doubt on record.
    InDoubt { attempts: u32, began: Timestamp },
    /// It happened.
    Done(Payload),
    /// Nothing is left to do about it.
    Over,
}

/// Follows one step from its beginning to its end. If its code is dropped in between, whatever may have happened is left to be undone.
pub(super) struct Tracked<'a> {
    activation: &'a Activation,
    scope: &'a Scope,
    effect: &'a Effect,
    pub(super) undo: Option<&'a Undo>,
    progress: Mutex<Progress>,
}

impl<'a> Tracked<'a> {
    pub(super) fn new(
        activation: &'a Activation,
        scope: &'a Scope,
        effect: &'a Effect,
        undo: Option<&'a Undo>,
    ) -> Self {
        Tracked { activation, scope, effect, undo, progress: Mutex::new(Progress::NotBegun) }
    }

    pub(super) fn set(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    fn leave_in_doubt(&self, undo: &Undo, attempts: u32, began: Timestamp) {
        let doubted = DoubtedStep { kind: self.effect.kind, attempts, began };
        self.scope.push_in_doubt(self.effect.id.clone(), doubted, undo.clone());
    }

    /// Puts on record that nobody waits for the effect any more. What cannot be undone is not settled by anybody, but it is counted.
    fn give_up(&self, progress: &Progress) {
        let (effect, activation) = (self.effect, self.activation);
        let now = activation.now();
        let (is_in_turn, is_ending) = {
            let desk = activation.desk();
            (desk.in_turn, desk.ending)
        };
        // If it is the engine that drops the code of a run that goes on, whoever drives it next finds out from the records.
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

impl Drop for Tracked<'_> {
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
        // If it is the engine that drops the code, whoever drives the run next finds out from the records.
        let is_dropped_by_code = activation.desk().in_turn;
        match progress {
            Progress::Done(output) => self.scope.push_done(self.effect.id.clone(), output, undo.clone()),
            Progress::InDoubt { attempts, began } => self.leave_in_doubt(undo, attempts, began),
            Progress::MayHaveHappened { attempts, began } if is_dropped_by_code => {
                let claim = Claim::<serde_json::Value>::default();
                let failure = Failure::unknown("it was dropped in the middle").with_code("cut_off");
                Claimed::about(self.effect, activation, &claim, Some(undo), attempts, began)
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
