//! People, who rule on doubts by the provider's records.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{
    Actor, DoubtRef, EffectKey, OperationStatus, Resolution, Role, Ruling, StepStatus, WorkspaceId,
};
use hapax_engine::store::Store;
use tokio::time::{sleep, timeout};

use super::every_operation;
use super::fleet::Fleet;
use super::provider::ProviderRecord;
use super::watch::{at_once, every_run};
use super::world::World;

pub async fn attend(world: Arc<World>, fleet: Arc<Fleet>) {
    loop {
        sleep(world.span(Duration::from_millis(400))).await;
        rule_on_steps(&world, &fleet).await;
        rule_on_operations(&world, &fleet).await;
    }
}

/// The correct ruling for an effect; none while the effect may still happen.
fn ruling(world: &World, key: &str) -> Option<Ruling> {
    let resolution = match world.provider.truth(key) {
        ProviderRecord::Happened(output) => Resolution::Happened { output },
        ProviderRecord::DidNotHappen => Resolution::DidNotHappen,
        ProviderRecord::Open => return None,
    };
    let by = Actor::new("ada", Role::Manager);
    Some(Ruling { resolution, by, seconded_by: None, reason: "so it is".into() })
}

async fn rule_on_steps(world: &Arc<World>, fleet: &Fleet) {
    for view in every_run(&world.store) {
        let run = view.head.id();
        let Some(log) = at_once(world.store.find_log(&WorkspaceId::default(), run)) else { continue };
        for step in log.steps.iter().filter(|step| step.state.status() == StepStatus::InDoubt) {
            let key = EffectKey::new(run, log.head.generation, &step.id);
            let (Some(ruling), Some(member)) = (ruling(world, key.as_str()), fleet.any()) else { continue };
            let seen = DoubtRef { run, step: step.id.clone(), seen: step.changed_version };
            let ruled = member.engine.resolve_doubt(&seen, ruling);
            match timeout(world.settings.lease_for, ruled).await {
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

async fn rule_on_operations(world: &Arc<World>, fleet: &Fleet) {
    for operation in every_operation(world) {
        if operation.state.status() != OperationStatus::InDoubt {
            continue;
        }
        let ruling = ruling(world, operation.effect_key().as_str());
        let (Some(ruling), Some(member)) = (ruling, fleet.any()) else { continue };
        let ruled = member.engine.resolve_operation(operation.id, operation.attempt, ruling);
        match timeout(world.settings.lease_for, ruled).await {
            Err(_)
            | Ok(Ok(_) | Err(Error::Store(_) | Error::OperationNotInDoubt(_) | Error::EntityBusy(_))) => {}
            Ok(Err(error)) => return world.break_off(format!("ruling on {}: {error}", operation.id)),
        }
    }
}
