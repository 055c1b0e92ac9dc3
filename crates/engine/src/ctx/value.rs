//! Values that must be the same in every replay.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ctx, Home, checked_name, decoded, invalid_failure, recorded_value};
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;

impl Ctx {
    /// Current time, recorded once.
    pub async fn now(&self) -> Result<Timestamp, Failure> {
        let at: i64 = self.remember("now", || self.current_time().as_millis())?;
        Ok(Timestamp::from_millis(at))
    }

    /// Random number, recorded once.
    pub async fn random(&self) -> Result<u64, Failure> {
        // Stored as text, because not every JSON reader keeps 64 bits.
        let text: String = self.remember("random", || fastrand::u64(..).to_string())?;
        text.parse().map_err(|_| Failure::permanent("the recorded random number cannot be read"))
    }

    /// Records a computed value under `name`, like a side effect in Temporal: `make` runs once, and every
    /// replay returns the recorded value.
    pub fn remember<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let name = checked_name("step name", name)?;
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(worker) => {
                let (value, is_recorded) =
                    worker.value(&name, || Payload::of(&make()).map_err(invalid_failure))?;
                return decoded(name.as_str(), &value).inspect_err(|failure| {
                    if is_recorded {
                        worker.machine.violate(failure.message().to_string());
                    }
                });
            }
        };
        let id = activation.next_id(&name);
        match activation.look_up_step(&id, StepKind::Value) {
            StepLookup::Done(record) => recorded_value(activation, id.as_str(), record.state),
            StepLookup::Cancelled | StepLookup::Open(_) | StepLookup::NotRecorded => {
                let value = make();
                let output = Payload::of(&value).map_err(invalid_failure)?;
                let now = activation.now();
                let state = StepState::Completed { at: now, output };
                activation.queue([PendingChange::finished(
                    &id,
                    StepKind::Value,
                    StepTransition::Complete,
                    state,
                    1,
                    now,
                )]);
                Ok(value)
            }
        }
    }

    /// Records that a step is skipped, so that it appears in the history. It has no effect and no output. A program that
    /// is remote records a value of null.
    pub fn skip(&self, name: &str) -> Result<(), Failure> {
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(_) => return self.remember(name, || ()),
        };
        let id = activation.next_id(&checked_name("step name", name)?);
        match activation.look_up_step(&id, StepKind::Value) {
            StepLookup::Done(_) => {}
            StepLookup::Cancelled | StepLookup::Open(_) | StepLookup::NotRecorded => {
                let at = activation.now();
                let state = StepState::Skipped { at };
                activation.queue([PendingChange::finished(
                    &id,
                    StepKind::Value,
                    StepTransition::Skip,
                    state,
                    0,
                    at,
                )]);
            }
        }
        Ok(())
    }
}
