//! After the end: all nodes purge closed runs at once, under faults. The keys still belong to the purged runs.

use std::sync::Arc;

use hapax_engine::model::RunId;
use hapax_engine::store::{Purge, Store};

use super::clients::Job;
use super::fleet::Fleet;
use super::watch::check_store;
use super::world::World;

const ROUNDS: usize = 8;
/// Small enough that a purge takes several passes.
const AT_ONCE: usize = 4;

/// Purges, then starts everything again under its key. Nothing may happen a second time.
pub async fn forget(world: &Arc<World>, fleet: &Arc<Fleet>, jobs: &[Arc<Job>]) -> Result<(), String> {
    world.storm_again();
    let passes = fleet.members().into_iter().map(|member| {
        let world = world.clone();
        async move {
            let mut after: Option<RunId> = None;
            for _ in 0..ROUNDS {
                let runs_closed_before = Some(world.store.now());
                let request = Purge { runs_closed_before, after, limit: AT_ONCE };
                // A node whose connection fails continues where it was. One that hangs gives up.
                let Ok(purged) =
                    tokio::time::timeout(world.settings.lease_for, member.store.purge(request)).await
                else {
                    return;
                };
                if let Ok(purged) = purged {
                    world.count(|tally| tally.runs_forgotten += purged.runs as u64);
                    after = purged.next;
                }
            }
        }
    });
    futures_util::future::join_all(passes).await;
    world.calm_down();
    fleet.crash_those_that_hang();
    (0..world.settings.nodes).for_each(|slot| fleet.fill(slot));
    check_store(&world.store)?;
    for job in jobs {
        job.clone().check_key(world, fleet).await?;
    }
    Ok(())
}
