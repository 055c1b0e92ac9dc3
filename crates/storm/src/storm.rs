//! One storm from its beginning to its end: faults and work side by side, then healing, settling and checking.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax_postgres_fixture::Shutdown;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::checks;
use crate::clients::{self, WorkDone};
use crate::limits::{CLAIM_STALE_AFTER, HEALING, SETTLED_WITHIN};
use crate::nodes;
use crate::people::People;
use crate::plan::{self, DatabaseFault, NodeFault, Plan, Timed};
use crate::report::Report;
use crate::world::World;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    pub seed: u64,
    pub nodes: usize,
    /// All of it, healing and checking included.
    pub total: Duration,
    pub program: PathBuf,
    pub folder: PathBuf,
}

/// Time without any change after which what is open is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub async fn run(options: &Options) -> Result<Report> {
    let length = options.total.saturating_sub(HEALING).max(Duration::from_secs(20));
    let plan = plan::draw(options.seed, options.nodes, length);
    println!("==> {} nodes on a PostgreSQL of their own", options.nodes);
    let world = World::start(options.seed, options.nodes, options.program.clone(), options.folder.clone());
    let world = Arc::new(world.await.context("the storm could not begin")?);
    let counts = plan.counts();
    println!(
        "==> storm of {:.0} s: {} pieces of work, {} kills, {} pauses, {} restarts of nodes, {} faults of links, {} of the database",
        length.as_secs_f64(),
        plan.work.len(),
        counts.kills,
        counts.pauses,
        counts.restarts,
        counts.link_faults,
        counts.database_faults
    );
    let mut people = People::default();
    let (mut clients, finished) = blow(&world, &plan, &mut people).await;

    println!("==> healing");
    heal(&world).await;
    println!("==> settling");
    let done = settle(&world, &mut clients, finished, &mut people).await;
    println!("==> checking");
    let mut evidence = checks::check(&world, &done).await?;
    checks::gather_journals(&world, &mut evidence).await?;
    stop(&world).await;
    Ok(Report::new(options, &plan, &world, &people, done.len(), evidence))
}

type Clients = JoinSet<Result<WorkDone>>;

/// Lets faults and work happen until the end of the plan.
async fn blow(world: &Arc<World>, plan: &Plan, people: &mut People) -> (Clients, Vec<Result<WorkDone>>) {
    let started = Instant::now();
    let mut faults = JoinSet::new();
    for (index, timeline) in plan.nodes.iter().enumerate() {
        faults.spawn(hurt_node(world.clone(), index, timeline.clone(), started));
    }
    let links = world.database_links.iter().zip(&plan.database_links);
    let of_nodes = links.enumerate().map(|(index, link)| (format!("link {index}"), link));
    let of_provider = ("link".to_owned(), (&world.provider_link, &plan.provider_link));
    for (name, (link, timeline)) in of_nodes.chain([of_provider]) {
        let (world, link, timeline) = (world.clone(), link.clone(), timeline.clone());
        faults.spawn(async move {
            for fault in timeline {
                until(started + fault.at).await;
                world.note(&name, fault.what.tell());
                link.suffer(&fault.what).await;
                world.note(&name, "is whole");
            }
        });
    }
    faults.spawn(hurt_database(world.clone(), plan.database.clone(), started));

    let begun = Arc::new(AtomicUsize::new(0));
    let mut clients = Clients::new();
    for Timed { at, what } in plan.work.clone() {
        let (world, begun) = (world.clone(), begun.clone());
        clients.spawn(async move {
            until(started + at).await;
            begun.fetch_add(1, Ordering::Relaxed);
            clients::work(world, what).await
        });
    }
    let mut finished = Vec::new();
    let mut next_word = started + TELL_EVERY;
    while started.elapsed() < plan.length {
        watch_exits(world);
        // Somebody looks now and then; most of the time the lists cannot be read.
        let _ = tokio::time::timeout(Duration::from_secs(2), people.look(world)).await;
        while let Some(Ok(done)) = clients.try_join_next() {
            finished.push(done);
        }
        if Instant::now() >= next_word {
            next_word += TELL_EVERY;
            let calls = world.provider.count_calls();
            println!(
                "    {:>4.0} s: {} pieces of work begun, {} done, {calls} requests at the provider, {} rulings, {} violations so far",
                started.elapsed().as_secs_f64(),
                begun.load(Ordering::Relaxed),
                finished.len(),
                people.ruled_happened + people.ruled_did_not_happen,
                world.violations().len()
            );
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // A fault that began late may end late; what it leaves behind is healed next.
    let all = async { while faults.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(12), all).await;
    faults.shutdown().await;
    (clients, finished)
}

async fn until(at: Instant) {
    tokio::time::sleep_until(at.into()).await;
}

async fn hurt_node(world: Arc<World>, index: usize, timeline: Vec<Timed<NodeFault>>, started: Instant) {
    let (node, link) = (&world.nodes[index], &world.database_links[index]);
    for fault in timeline {
        until(started + fault.at).await;
        let who = format!("node {index}");
        match fault.what {
            NodeFault::Kill { down } => {
                world.note(&who, "is killed");
                node.kill();
                tokio::time::sleep(down).await;
                start(&world, index);
            }
            NodeFault::Pause { span } => {
                world.note(&who, "is stopped");
                node.signal(Signal::STOP);
                tokio::time::sleep(span).await;
                world.note(&who, "goes on");
                node.signal(Signal::CONT);
            }
            NodeFault::BusyPause { lag, slow, span } => {
                link.delay_replies(lag);
                world.provider_link.hold_connects(lag.is_none());
                tokio::time::sleep(slow).await;
                world.note(&who, "is stopped while it is busy");
                node.signal(Signal::STOP);
                link.delay_replies(None);
                world.provider_link.hold_connects(false);
                tokio::time::sleep(span).await;
                world.note(&who, "goes on");
                node.signal(Signal::CONT);
            }
            NodeFault::Restart => {
                world.note(&who, "is asked to end");
                if let Err(error) = node.stop().await {
                    world.report("nodes stop within their grace", None, format!("{error:#}"));
                }
                start(&world, index);
            }
        }
    }
}

fn start(world: &World, index: usize) {
    world.note(format!("node {index}"), "is started");
    if let Err(error) = world.nodes[index].start() {
        world.report("nodes come up", None, format!("node {index}: {error:#}"));
    }
}

/// A node that ends by itself is a violation, and is started again.
fn watch_exits(world: &World) {
    for node in &world.nodes {
        if let Some(status) = node.find_exit() {
            world.report("nodes stay up", None, format!("node {} ended by itself ({status})", node.index));
            start(world, node.index);
        }
    }
}

async fn hurt_database(world: Arc<World>, timeline: Vec<Timed<DatabaseFault>>, started: Instant) {
    for fault in timeline {
        until(started + fault.at).await;
        let database = world.database.clone();
        world.note("database", fault.what.tell());
        let happened = tokio::task::spawn_blocking(move || match fault.what {
            DatabaseFault::Restart => database.restart(Shutdown::Fast),
            DatabaseFault::Crash { down } => {
                database.kill();
                std::thread::sleep(down);
                database.start_again()
            }
            DatabaseFault::Freeze { span } => {
                database.freeze();
                std::thread::sleep(span);
                database.thaw();
                Ok(())
            }
        });
        let happened = happened.await;
        world.note("database", "is back");
        if let Ok(Err(error)) = happened {
            println!("    the database did not come back at once: {error}");
        }
    }
}

/// Ends every fault and waits until all nodes are ready.
async fn heal(world: &World) {
    world.note("all", "the storm is over");
    for link in world.database_links.iter().chain([&world.provider_link]) {
        link.heal();
    }
    world.provider.set_difficult(false);
    let database = world.database.clone();
    let is_back = tokio::task::spawn_blocking(move || {
        database.thaw();
        // One that runs already says so.
        database.start_again().or_else(|_| database.restart(Shutdown::Fast))
    });
    if let Ok(Err(error)) = is_back.await {
        world.report("the database comes back", None, error.to_string());
    }
    for node in &world.nodes {
        node.signal(Signal::CONT);
    }
    // A process that ended while it was not looked at, or that nobody started again.
    watch_exits(world);
    for node in &world.nodes {
        if !node.is_started() {
            start(world, node.index);
        }
    }
    for node in &world.nodes {
        if let Err(error) = node.until_ready().await {
            world.report("nodes come up", None, format!("{error:#}"));
        }
    }
    world.end_at(Instant::now() + SETTLED_WITHIN);
}

/// Waits until nothing is open, with the help of people.
async fn settle(
    world: &Arc<World>,
    clients: &mut Clients,
    finished: Vec<Result<WorkDone>>,
    people: &mut People,
) -> Vec<WorkDone> {
    let began = Instant::now();
    let mut answers = finished;
    let (mut seen, mut changed_at) = (BTreeSet::new(), Instant::now());
    loop {
        watch_exits(world);
        while let Some(Ok(done)) = clients.try_join_next() {
            answers.push(done);
        }
        let _ = people.look(world).await;
        let _ = people.resume_quarantined(world).await;
        let open = match list_open(world).await {
            Ok(open) => open,
            Err(error) => BTreeSet::from([format!("{error:#}")]),
        };
        if open.is_empty() && clients.is_empty() {
            break;
        }
        if open != seen {
            (seen, changed_at) = (open, Instant::now());
        }
        let waits_for_a_janitor = seen.iter().any(|line| line.starts_with("op_"));
        let patience = if waits_for_a_janitor { CLAIM_STALE_AFTER + STUCK_AFTER } else { STUCK_AFTER };
        if changed_at.elapsed() > patience || began.elapsed() > SETTLED_WITHIN {
            for line in &seen {
                world.report("everything settles", None, format!("still open after the storm: {line}"));
            }
            break;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    world.end_at(Instant::now());
    while let Some(Ok(done)) = clients.join_next().await {
        answers.push(done);
    }
    // Requests of the checks must not give up at once.
    world.end_at(Instant::now() + SETTLED_WITHIN);
    let mut done = Vec::new();
    for answer in answers {
        match answer {
            Ok(work) => done.push(work),
            Err(error) => world.report("clients are answered", None, format!("{error:#}")),
        }
    }
    done
}

/// One line for each run, operation and webhook that is not over.
async fn list_open(world: &World) -> Result<BTreeSet<String>> {
    let mut open = BTreeSet::new();
    for status in ["PENDING", "RUNNING", "WAITING", "PAUSED"] {
        for run in world.list(&format!("/api/v1/workflow-runs?status={status}")).await? {
            let asked = &run["pendingRequest"];
            open.insert(
                format!("{} {status} version {} pending {asked}", run["id"], run["version"]).replace('"', ""),
            );
        }
    }
    for status in ["PENDING", "IN_DOUBT"] {
        for operation in world.list(&format!("/api/v1/operations?status={status}")).await? {
            let of = &operation["entityId"];
            open.insert(
                format!("{} {status} attempt {} of {of}", operation["id"], operation["attempts"])
                    .replace('"', ""),
            );
        }
    }
    for event in world.list("/api/v1/webhook-events?status=received").await? {
        open.insert(format!("webhook {} received", event["eventId"]));
    }
    Ok(open)
}

/// Checks the store, then stops all nodes, which must end in good order.
async fn stop(world: &World) {
    for node in &world.nodes {
        match node.stop().await {
            Ok((_, status)) if status.success() => {}
            Ok((took, status)) => {
                let what = format!("node {} exited with {status} after {took:?}", node.index);
                world.report("nodes stop within their grace", None, what);
            }
            Err(error) => world.report("nodes stop within their grace", None, format!("{error:#}")),
        }
        for panic in node.panics() {
            world.report("nodes do not panic", None, format!("node {}: {panic}", node.index));
        }
    }
    if let Err(error) = nodes::fsck(&world.program, &world.store()) {
        world.report("hapax fsck", None, format!("{error:#}"));
    }
}
