//! One seed from its first request to the last check.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::limits::MAX_DELIVERY;
use hapax_engine::model::{OutboxMessage, RunHead, RunResult, RunStatus, WorkspaceId};
use hapax_engine::store::{ListOutbox, RunView, Store};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::api_callers::ApiCallers;
use super::clients::Job;
use super::evidence::check_evidence;
use super::external_callers::ExternalCallers;
use super::families::list_unswept;
use super::fleet::Fleet;
use super::forgetting::forget;
use super::probe;
use super::shop::Shop;
use super::storm;
use super::tally::SimulationCounts;
use super::trace::Digest;
use super::trace_text;
use super::watch::{at_once, check_store, every_run};
use super::world::World;

/// A seed that passed.
#[derive(Debug)]
pub struct PassedSeed {
    pub tally: SimulationCounts,
    pub digest: Digest,
}

/// A seed that failed.
#[derive(Debug)]
pub struct FailedSeed {
    pub seed: u64,
    pub what: String,
    pub last_lines: String,
}

/// Runs `seed` on this thread, on a clock that jumps to the next timer.
pub fn simulate(seed: u64) -> Result<PassedSeed, FailedSeed> {
    // The engines draw ids, tokens and jitter from this generator.
    hapax_engine::model::seed_thread_rng(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime needs nothing but memory").block_on(async {
        let world = Arc::new(World::new(seed));
        world.log("--", &format!("{:?}", world.settings));
        let played = tokio::select! {
            biased;
            what = world.alarm() => Err(what),
            played = play(&world) => played,
        };
        match played.and_then(|()| world.broken().map_or(Ok(()), Err)) {
            Ok(()) => Ok(PassedSeed { tally: *world.tally.lock().unwrap(), digest: world.digest() }),
            Err(what) => Err(FailedSeed { seed, what, last_lines: world.last_lines() }),
        }
    })
}

async fn play(world: &Arc<World>) -> Result<(), String> {
    let fleet = Fleet::launch(world.clone());
    let jobs: Vec<Arc<Job>> = (0..world.settings.jobs).map(|number| Job::draw(world, number)).collect();
    let clients: Vec<_> =
        jobs.iter().map(|job| tokio::spawn(job.clone().pursue(world.clone(), fleet.clone()))).collect();
    let outside = ExternalCallers::new(world.clone(), fleet.clone());
    let people = tokio::spawn(outside.clone().act());
    let (shop, desk) = (Shop::launch(world, &fleet), ApiCallers::launch(world, &fleet));
    let attendants = tokio::spawn(shop.clone().attend());
    storm::rage(world, &fleet).await;
    storm::heal(world, &fleet);
    outside.storm_is_over();
    until_all_is_done(world, &fleet, &jobs, || shop.open() + desk.open()).await?;
    people.abort();
    attendants.abort();
    for client in clients {
        client.await.map_err(|panic| format!("a client panicked: {panic}"))?;
    }
    check_the_end(world).await?;
    check_evidence(world, &fleet).await?;
    shop.check().await?;
    desk.check()?;
    forget(world, &fleet, &jobs).await?;
    probe::check_idleness(world).await?;
    probe::check_each_node(world, &fleet).await?;
    check_nothing_runs_on(world, &fleet).await
}

/// Invariants 64 and 65: after the storm everything ends by itself, and in time.
async fn until_all_is_done(
    world: &World,
    fleet: &Fleet,
    jobs: &[Arc<Job>],
    others: impl Fn() -> usize,
) -> Result<(), String> {
    let healed_at = Instant::now();
    loop {
        let open: Vec<RunView> =
            every_run(&world.store).into_iter().filter(|view| !view.head.status().is_closed()).collect();
        let driven: usize = fleet.members().iter().map(|member| member.engine.active_runs()).sum();
        let awaited = jobs.iter().filter(|job| job.run().is_none() || job.is_awaited()).count();
        let posts = every_post(world);
        let left = posts.iter().filter(|post| !post.state.status().is_settled()).count();
        let others = others() + list_unswept(&world.store).len();
        if open.is_empty() && driven == 0 && awaited == 0 && left == 0 && others == 0 {
            return Ok(());
        }
        // A crashed deliverer held its claim for longer than any lease.
        let patience = world.settings.patience() + if left > 0 { MAX_DELIVERY * 4 } else { Duration::ZERO };
        if healed_at.elapsed() > patience {
            let waits: Vec<String> = open.iter().map(|view| what_it_waits_for(world, &view.head)).collect();
            return Err(format!(
                "stuck: {} runs are open, {driven} driven, {awaited} clients wait, {left} posts are left, {others} others are not done, {:?} after the storm\n{}",
                open.len(),
                healed_at.elapsed(),
                waits.join("\n")
            ));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn every_post(world: &World) -> Vec<OutboxMessage> {
    let all = ListOutbox { workspace: None, status: None, target: None, after: None, limit: usize::MAX };
    at_once(world.store.list_outbox(all))
}

fn what_it_waits_for(world: &World, head: &RunHead) -> String {
    let log = at_once(world.store.find_log(&WorkspaceId::default(), head.id())).expect("it was listed");
    let open = log.steps.iter().filter(|step| !step.state.status().is_final());
    let open: Vec<String> = open
        .map(|step| {
            let child = step.child.map(|child| format!(" for {}", world.name(child))).unwrap_or_default();
            format!("{} {:?}{child}", step.id, step.state)
        })
        .collect();
    let signals = log.signals.len();
    let (standing, lines) = (trace_text::head(head, world), world.last_lines_of(head.id()));
    format!("  {standing}: {signals} unread signals; open steps: {}\n{lines}", open.join(", "))
}

async fn check_the_end(world: &World) -> Result<(), String> {
    check_store(&world.store)?;
    // Invariants 50 and 51.
    let unreceived = every_post(world).into_iter().find(|post| !world.provider.is_received(post.id.as_str()));
    if let Some(post) = unreceived {
        return Err(format!("invariant 51: {} is {:?}, but nobody received it", post.id, post.state));
    }
    let mut tally = world.tally.lock().unwrap();
    for view in every_run(&world.store) {
        tally.runs += 1;
        tally.generations += u64::from(view.head.generation.get());
        match view.head.status() {
            RunStatus::Completed => tally.completed += 1,
            RunStatus::Failed => tally.failed += 1,
            RunStatus::Cancelled => tally.cancelled += 1,
            open => return Err(format!("{} is {}", world.name(view.head.id()), open.as_str())),
        }
        check_result(world, &view)?;
    }
    tally.effects += world.provider.entries();
    tally.repeats_allowed += world.with_watch(|watch| watch.all_repeats());
    Ok(())
}

/// Checks that the outcomes the code saw are those on record.
fn check_result(world: &World, view: &RunView) -> Result<(), String> {
    let (run, name) = (view.head.id(), world.name(view.head.id()));
    match view.result.as_ref().ok_or(format!("{name} has no result"))? {
        RunResult::Failed(_) | RunResult::Cancelled(_) => Ok(()),
        RunResult::Completed(output) => {
            let seen: Result<(u32, Vec<(String, Value)>), _> = output.to();
            let (generation, seen) = seen.map_err(|error| format!("the output of {name}: {error}"))?;
            world.with_watch(|watch| {
                for (step, value) in seen {
                    let recorded = watch.output(run, generation, &step).map(|output| output.to::<Value>());
                    if !matches!(&recorded, Some(Ok(recorded)) if *recorded == value) {
                        return Err(format!(
                            "invariant 31: {name} saw {value} of {step}; on record: {recorded:?}"
                        ));
                    }
                }
                Ok(())
            })
        }
    }
}

/// Checks that a killed engine leaves nothing running, and that tasks waiting for an answer end with their timers.
async fn check_nothing_runs_on(world: &World, fleet: &Fleet) -> Result<(), String> {
    fleet.end();
    sleep(world.settings.lease_for * 2).await;
    let requests = world.tally.lock().unwrap().requests;
    sleep(world.settings.lease_for * 2).await;
    let later = world.tally.lock().unwrap().requests;
    if later != requests {
        return Err(format!("dead nodes sent {} requests", later - requests));
    }
    match tokio::runtime::Handle::current().metrics().num_alive_tasks() {
        0 => Ok(()),
        tasks => Err(format!("{tasks} tasks outlive every engine")),
    }
}
