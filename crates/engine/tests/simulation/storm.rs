//! Crashes, freezes or cuts off one node after another for a while, then repairs everything.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fleet::Fleet;
use super::world::World;

/// Injects faults until the storm is over.
pub async fn rage(world: &Arc<World>, fleet: &Arc<Fleet>) {
    let settings = world.settings;
    let end = Instant::now() + settings.storm;
    while Instant::now() < end {
        sleep(world.span(settings.blow_every)).await;
        let slot = world.roll(|dice| dice.usize(0..settings.nodes));
        tokio::spawn(strike(world.clone(), fleet.clone(), slot));
        if world.chance(3) {
            fleet.crash_those_that_hang();
            (0..settings.nodes).for_each(|slot| fleet.fill(slot));
        }
    }
}

async fn strike(world: Arc<World>, fleet: Arc<Fleet>, slot: usize) {
    let lease_for = world.settings.lease_for;
    match world.roll(|dice| dice.u32(0..10)) {
        0..=2 => {
            fleet.crash(slot);
            come_back(&world, &fleet, slot, lease_for * 2).await;
        }
        3 => {
            let grace = world.span(lease_for);
            fleet.retire(slot, grace).await;
            come_back(&world, &fleet, slot, lease_for).await;
        }
        4..=5 => {
            let span = world.span(lease_for * 5 / 2);
            fleet.freeze(slot, span).await;
        }
        6..=7 => {
            let span = world.span(lease_for * 5 / 2);
            fleet.cut_off(slot, span).await;
        }
        8 if world.settings.clocks_are_wrong => fleet.jump(slot),
        _ => {}
    }
}

async fn come_back(world: &World, fleet: &Fleet, slot: usize, within: Duration) {
    sleep(world.span(within)).await;
    fleet.fill(slot);
}

/// Ends all faults: every node runs and is healthy, and no request is lost.
pub fn heal(world: &World, fleet: &Fleet) {
    world.log("--", "the storm is over");
    world.calm_down();
    fleet.crash_those_that_hang();
    for member in fleet.members() {
        member.node.freeze(false);
        member.node.cut_off(false);
    }
    (0..world.settings.nodes).for_each(|slot| fleet.fill(slot));
}
