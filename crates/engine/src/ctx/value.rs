//! Values that must be the same in every replay.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ctx, checked_name, recorded_value, refused};
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::runtime::change::Change;
use crate::runtime::replay_state::Entered;

impl Ctx {
    /// The time, remembered.
    pub async fn now(&self) -> Result<Timestamp, Failure> {
        let at: i64 = self.remember("now", || self.activation.now().as_millis())?;
        Ok(Timestamp::from_millis(at))
    }

    /// A random number, remembered.
    pub async fn random(&self) -> Result<u64, Failure> {
        // As text, because not every reader of JSON keeps 64 bits.
        let text: String = self.remember("random", || fastrand::u64(..).to_string())?;
        text.parse().map_err(|_| Failure::permanent("the recorded random number cannot be read"))
    }

    /// A value worked out once, under a name of its own: every replay gives what was recorded.
    pub fn remember<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let activation = &*self.activation;
        let id = activation.next_id(&checked_name("step name", name)?);
        match activation.enter(&id, StepKind::Value) {
            Entered::Done(record) => recorded_value(activation, id.as_str(), record.state),
            Entered::GivenUp | Entered::Open(_) | Entered::Fresh => {
                let value = make();
                let output = Payload::of(&value).map_err(refused)?;
                let now = activation.now();
                let state = StepState::Completed { at: now, output };
                activation.queue([Change::finished(
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

    /// Puts on record that a step is passed over, so that people see it in its place. It takes no effect and gives nothing.
    pub fn skip(&self, name: &str) -> Result<(), Failure> {
        let activation = &*self.activation;
        let id = activation.next_id(&checked_name("step name", name)?);
        match activation.enter(&id, StepKind::Value) {
            Entered::Done(_) => {}
            Entered::GivenUp | Entered::Open(_) | Entered::Fresh => {
                let at = activation.now();
                let state = StepState::Skipped { at };
                activation.queue([Change::finished(
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
