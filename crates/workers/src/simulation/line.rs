//! The line from a worker to the nodes. It refuses, loses, delays and repeats requests and answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hapax_api::Problem;
use tokio::time::sleep;

use super::network_faults::RequestFault;
use super::simulated_nodes::NodeSessions;
use super::world::World;
use crate::Workers;

/// Result of a request, as the worker sees it.
pub enum LineAnswer<T> {
    Answer(T),
    /// The server refused it.
    Refused(Problem),
    /// Nothing: it may have taken effect.
    NoAnswer,
}

/// A request: it can be carried out again.
pub type Act<T> = Arc<dyn Fn(Arc<Workers>) -> BoxFuture<'static, Result<T, Problem>> + Send + Sync>;

/// Sends a request over the line to `via`, which passes it on to `office` if that is another one.
pub async fn send<T: Send + 'static>(
    world: &Arc<World>,
    via: &NodeSessions,
    office: &NodeSessions,
    act: Act<T>,
) -> (LineAnswer<T>, bool) {
    let journey = world.journey(true, true);
    sleep(journey.out).await;
    via.node.thawed().await;
    if via.node.is_dead() {
        return (LineAnswer::NoAnswer, false);
    }
    let mut came_twice = false;
    let told = match journey.fate {
        RequestFault::Refuse | RequestFault::LoseRequest => LineAnswer::NoAnswer,
        RequestFault::Hang { takes_effect } => {
            if takes_effect {
                deliver(office, &act).await;
            }
            sleep(world.settings.lease_for).await;
            LineAnswer::NoAnswer
        }
        RequestFault::LoseAnswer => {
            deliver(office, &act).await;
            LineAnswer::NoAnswer
        }
        RequestFault::ArriveLate(after) => {
            arrive_later(office, act, after);
            LineAnswer::NoAnswer
        }
        RequestFault::ArriveTwice => {
            came_twice = true;
            // Both are under way at once, and the second answer counts.
            let (_, second) = tokio::join!(deliver(office, &act), deliver(office, &act));
            second
        }
        RequestFault::Echo(after) => {
            came_twice = true;
            let told = deliver(office, &act).await;
            arrive_later(office, act, after);
            told
        }
        RequestFault::Pass => deliver(office, &act).await,
    };
    sleep(journey.back).await;
    (told, came_twice)
}

fn arrive_later<T: Send + 'static>(office: &NodeSessions, act: Act<T>, after: Duration) {
    let office = office.clone();
    tokio::spawn(async move {
        sleep(after).await;
        deliver(&office, &act).await;
    });
}

/// The node takes in the request, unless it is dead. If it dies before it answers, the request gets no answer.
async fn deliver<T>(office: &NodeSessions, act: &Act<T>) -> LineAnswer<T> {
    office.node.thawed().await;
    if office.node.is_dead() {
        return LineAnswer::NoAnswer;
    }
    let acted = act(office.workers.clone());
    tokio::select! {
        biased;
        () = office.node.death() => LineAnswer::NoAnswer,
        acted = acted => {
            office.node.thawed().await;
            match acted {
                _ if office.node.is_dead() => LineAnswer::NoAnswer,
                Ok(answer) => LineAnswer::Answer(answer),
                Err(problem) => LineAnswer::Refused(problem),
            }
        }
    }
}
