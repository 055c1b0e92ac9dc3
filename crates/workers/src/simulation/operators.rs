//! People, who rule on doubts by the provider's records.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{Actor, DoubtRef, EffectKey, Resolution, Role, Ruling, StepStatus, WorkspaceId};
use hapax_engine::store::Store;
use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::provider::ProviderRecord;
use super::watch::{at_once, every_run};
use super::world::World;

pub async fn attend(world: Arc<World>, fleet: Arc<Fleet>) {
    loop {
        sleep(world.span(Duration::from_millis(800))).await;
        for view in every_run(&world.store) {
            let run = view.head.id();
            let Some(log) = at_once(world.store.find_log(&WorkspaceId::default(), run)) else { continue };
            for step in log.steps.iter().filter(|step| step.state.status() == StepStatus::InDoubt) {
                let key = EffectKey::new(run, log.head.generation, &step.id);
                let resolution = match world.provider.truth(key.as_str()) {
                    ProviderRecord::Happened(output) => Resolution::Happened { output },
                    ProviderRecord::DidNotHappen => Resolution::DidNotHappen,
                    ProviderRecord::Open => continue,
                };
                world.count(|tally| tally.doubts_resolved += 1);
                if resolution == Resolution::DidNotHappen {
                    world.provider.deny(key.as_str());
                }
                let by = Actor::new("ada", Role::Manager);
                let ruling = Ruling { resolution, by, seconded_by: None, reason: "so it is".into() };
                let Some(member) = fleet.any() else { continue };
                let seen = DoubtRef { run, step: step.id.clone(), seen: step.changed_version };
                match timeout(world.settings.lease_for, member.engine.resolve_doubt(&seen, ruling)).await {
                    Err(_)
                    | Ok(
                        Ok(())
                        | Err(
                            Error::Store(_)
                            | Error::NoSuchDoubt { .. }
                            | Error::RulingNotPossible { .. }
                            | Error::DoubtResolved { .. },
                        ),
                    ) => {}
                    Ok(Err(error)) => return world.break_off(format!("ruling on {seen:?}: {error}")),
                }
            }
        }
    }
}
