//! Documents under the faulty store of the engine's simulation: definitions and entity workflows
//! are uploaded on one node and used on all others at once, while nodes crash, freeze and lose
//! requests. The simulation runs the code of the server, without HTTP and sockets.
#![allow(dead_code)]

#[path = "../../engine/tests/simulation/families.rs"]
mod families;
#[path = "../../engine/tests/simulation/faulty_parts.rs"]
mod faulty_parts;
#[path = "../../engine/tests/simulation/faulty_store.rs"]
mod faulty_store;
#[path = "../../engine/tests/simulation/fleet.rs"]
mod fleet;
#[path = "../../engine/tests/simulation/network_faults.rs"]
mod network_faults;
#[path = "../../engine/tests/simulation/node.rs"]
mod node;
#[path = "../../engine/tests/simulation/program.rs"]
mod program;
#[path = "../../engine/tests/simulation/program_workflow.rs"]
mod program_workflow;
#[path = "../../engine/tests/simulation/provider.rs"]
mod provider;
#[path = "../../engine/tests/simulation/requests.rs"]
mod requests;
#[path = "../../engine/tests/simulation/rule.rs"]
mod rule;
#[path = "../../engine/tests/simulation/shop.rs"]
mod shop;
#[path = "../../engine/tests/simulation/storm.rs"]
mod storm;
#[path = "../../engine/tests/simulation/tally.rs"]
mod tally;
#[path = "../../engine/tests/simulation/trace.rs"]
mod trace;
#[path = "../../engine/tests/simulation/trace_text.rs"]
mod trace_text;
#[path = "../../engine/tests/simulation/watch.rs"]
mod watch;
#[path = "../../engine/tests/simulation/world.rs"]
mod world;

mod callers;
mod operators;
mod simulated_server;

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::WorkspaceId;
use hapax_engine::store::{EntityStore, ListOperations};
use tokio::time::{Instant, sleep};

use callers::Callers;
use fleet::Fleet;
use simulated_server::SimulatedNodes;
use watch::{at_once, check_store, every_run};
use world::World;

const SEEDS: u64 = 25;

/// Coverage that many seeds together must reach, so that a simulation without activity does not
/// pass.
#[derive(Debug, Default, Clone, Copy)]
struct Coverage {
    runs: usize,
    operations: usize,
    documents: u64,
    loaded: usize,
    crashes: u64,
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn documents_are_in_force_on_every_node_once_they_are_acknowledged() {
    let first = setting("HAPAX_SIM_FIRST_SEED").unwrap_or(0);
    let seeds = setting("HAPAX_SIM_SEEDS").unwrap_or(SEEDS);
    let mut all = Coverage::default();
    for seed in first..first + seeds {
        match simulate(seed) {
            Ok(shown) => {
                all.runs += shown.runs;
                all.operations += shown.operations;
                all.documents += shown.documents;
                all.loaded += shown.loaded;
                all.crashes += shown.crashes;
            }
            Err(what) => panic!(
                "seed {seed}: {what}\n\nplay it again with\n    HAPAX_SIM_SEEDS=1 HAPAX_SIM_FIRST_SEED={seed} cargo test -p hapax-server --lib \
                 documents_are_in_force"
            ),
        }
    }
    let is_little =
        all.runs == 0 || all.operations == 0 || all.documents == 0 || all.loaded == 0 || all.crashes == 0;
    assert!(!is_little || seeds < SEEDS, "something never happened: {all:?}");
}

fn simulate(seed: u64) -> Result<Coverage, String> {
    hapax_engine::model::seed_thread_rng(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime needs nothing but memory").block_on(async {
        let world = Arc::new(World::new(seed));
        let played = tokio::select! {
            biased;
            what = world.alarm() => Err(what),
            played = play(&world) => played,
        };
        match world.broken() {
            Some(what) => Err(what),
            None => played,
        }
        .map_err(|what| format!("{what}\n\n{}", world.last_lines()))
    })
}

async fn play(world: &Arc<World>) -> Result<Coverage, String> {
    let office = SimulatedNodes::new(world);
    let furnished = office.clone();
    let fleet = Fleet::launch_with(world.clone(), Box::new(move |member| furnished.open(member)));
    let callers = Callers::launch(world, &fleet, &office);
    let people = tokio::spawn(operators::attend(world.clone(), fleet.clone()));
    storm::rage(world, &fleet).await;
    storm::heal(world, &fleet);
    until_all_is_done(world, &callers).await?;
    people.abort();
    check_store(&world.store)?;
    callers.check()?;
    office.check()?;
    fleet.end();
    let crashes = world.tally.lock().unwrap().crashes;
    let operations = every_operation(world).len();
    let (documents, loaded) = (office.documents(), office.loaded());
    Ok(Coverage { runs: every_run(&world.store).len(), operations, documents, loaded, crashes })
}

fn every_operation(world: &World) -> Vec<hapax_engine::model::Operation> {
    let all = ListOperations {
        workspace: WorkspaceId::default(),
        kind: None,
        entity: None,
        step: None,
        status: None,
        before: None,
        limit: usize::MAX,
    };
    at_once(EntityStore::list_operations(&world.store, all))
}

/// After the storm, waits until everything ends by itself or by people's rulings.
async fn until_all_is_done(world: &World, callers: &Callers) -> Result<(), String> {
    let healed_at = Instant::now();
    loop {
        let runs = every_run(&world.store).into_iter().filter(|view| !view.head.status().is_closed());
        let runs: Vec<String> = runs.map(|view| trace_text::head(&view.head, world)).collect();
        let operations = every_operation(world);
        let operations: Vec<_> = operations.iter().filter(|one| !one.state.status().has_ended()).collect();
        let waiting = callers.open();
        if runs.is_empty() && operations.is_empty() && waiting == 0 {
            return Ok(());
        }
        if healed_at.elapsed() > world.settings.patience() + Duration::from_secs(600) {
            return Err(format!(
                "stuck after the storm: {waiting} callers wait; runs {runs:?}; operations {operations:?}"
            ));
        }
        sleep(Duration::from_millis(50)).await;
    }
}
