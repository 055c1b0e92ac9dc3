//! Checks after the storm and the work that every node is healthy.

use std::time::Duration;

use hapax_engine::EngineOptions;
use hapax_engine::limits::SWEEP_EVERY;
use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::program::{EffectBehaviour, GenerationEnd, Op, Program};
use super::program_workflow::WORKFLOW;
use super::world::World;

/// Checks that idle nodes poll for work now and then, and do nothing else.
pub async fn check_idleness(world: &World) -> Result<(), String> {
    const POLLS: u32 = 10;
    let before = world.tally.lock().unwrap().requests;
    let span = world.settings.poll_every * POLLS;
    sleep(span).await;
    let requests = world.tally.lock().unwrap().requests - before;
    // Upper bound on how often a periodic action occurs in that time.
    let rounds = |every: Duration| (span.as_millis() / every.as_millis()) as u64 + 1;
    // Runs and after-effects.
    let polls = 2 * rounds(world.settings.poll_every);
    // The janitor runs once per lease (see `shop::open`). It looks for operations without a live holder and for
    // operations in doubt.
    let janitor = 2 * rounds(world.settings.lease_for);
    // Keys and runs, request keys, webhooks.
    let housekeeping = 3 * rounds(EngineOptions::default().purge_every);
    // Families under cancellation.
    let sweeps = rounds(SWEEP_EVERY);
    match requests <= (polls + janitor + housekeeping + sweeps) * world.settings.nodes as u64 {
        true => Ok(()),
        false => {
            Err(format!("with nothing to do, {requests} requests were sent in the time of {POLLS} polls"))
        }
    }
}

/// Checks that each node, with all others cut off, can drive a run that sleeps and works.
pub async fn check_each_node(world: &World, fleet: &Fleet) -> Result<(), String> {
    let members = fleet.members();
    for member in &members {
        members.iter().for_each(|other| other.node.cut_off(other.node.name != member.node.name));
        let effort = EffectBehaviour { ms: 20, ..EffectBehaviour::quick() };
        let ops = vec![Op::Step(effort), Op::Sleep { ms: 50 }, Op::Step(effort)];
        let program = Program { generation: 0, ops, then: GenerationEnd::Complete };
        let patience = (world.settings.lease_for + world.settings.poll_every) * 2 + Duration::from_secs(1);
        match timeout(patience, async { member.engine.start(WORKFLOW, &program).await?.wait_for_end().await })
            .await
        {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("{} fails alone: {error}", member.node.name)),
            Err(_) => return Err(format!("{} alone does not drive a run to its end", member.node.name)),
        }
    }
    members.iter().for_each(|member| member.node.cut_off(false));
    Ok(())
}
