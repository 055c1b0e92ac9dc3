//! After the storm and the work: is every node well?

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::performing::WORKFLOW;
use super::program::{Effort, Op, Program, Then};
use super::world::World;

/// With nothing to do, nodes look for work now and then, and do no more than that.
pub async fn check_idleness(world: &World) -> Result<(), String> {
    const POLLS: u32 = 10;
    let before = world.tally.lock().unwrap().requests;
    sleep(world.settings.poll_every * POLLS).await;
    let requests = world.tally.lock().unwrap().requests - before;
    // A janitor looks once in a lease, for operations whose holder vanished and for those in doubt.
    let janitor =
        2 * (1 + (world.settings.poll_every * POLLS).as_millis() / world.settings.lease_for.as_millis());
    // Runs and after-effects are looked for; a renewal, a late poll and a round of housekeeping may fall into the time as well.
    let most = u128::from(2 * POLLS + 10) + janitor;
    match u128::from(requests) <= most * world.settings.nodes as u128 {
        true => Ok(()),
        false => {
            Err(format!("with nothing to do, {requests} requests were sent in the time of {POLLS} polls"))
        }
    }
}

/// Each node alone, with all others cut off, drives a run that sleeps and works.
pub async fn check_each_node(world: &World, fleet: &Fleet) -> Result<(), String> {
    let members = fleet.members();
    for member in &members {
        members.iter().for_each(|other| other.node.cut_off(other.node.name != member.node.name));
        let effort = Effort { ms: 20, ..Effort::quick() };
        let ops = vec![Op::Step(effort), Op::Sleep { ms: 50 }, Op::Step(effort)];
        let program = Program { generation: 0, ops, then: Then::Complete };
        let patience = (world.settings.lease_for + world.settings.poll_every) * 2 + Duration::from_secs(1);
        match timeout(patience, async { member.engine.start(WORKFLOW, &program).await?.ending().await }).await
        {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("{} fails alone: {error}", member.node.name)),
            Err(_) => return Err(format!("{} alone does not drive a run to its end", member.node.name)),
        }
    }
    members.iter().for_each(|member| member.node.cut_off(false));
    Ok(())
}
