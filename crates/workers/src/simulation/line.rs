//! The line from a worker to the nodes. It refuses, loses, delays and repeats requests and answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hapax_api::Problem;
use tokio::time::sleep;

use super::offices::Office;
use super::weather::Fate;
use super::world::World;
use crate::Workers;

/// What a worker learns of its request.
pub enum Told<T> {
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
    via: &Office,
    office: &Office,
    act: Act<T>,
) -> (Told<T>, bool) {
    let journey = world.journey(true, true);
    sleep(journey.out).await;
    via.node.thawed().await;
    if via.node.is_dead() {
        return (Told::NoAnswer, false);
    }
    let mut came_twice = false;
    let told = match journey.fate {
        Fate::Refuse | Fate::LoseRequest => Told::NoAnswer,
        Fate::Hang { takes_effect } => {
            if takes_effect {
                deliver(office, &act).await;
            }
            sleep(world.settings.lease_for).await;
            Told::NoAnswer
        }
        Fate::LoseAnswer => {
            deliver(office, &act).await;
            Told::NoAnswer
        }
        Fate::ArriveLate(after) => {
            arrive_later(office, act, after);
            Told::NoAnswer
        }
        Fate::ArriveTwice => {
            came_twice = true;
            // Both are under way at once, and the second answer counts.
            let (_, second) = tokio::join!(deliver(office, &act), deliver(office, &act));
            second
        }
        Fate::Echo(after) => {
            came_twice = true;
            let told = deliver(office, &act).await;
            arrive_later(office, act, after);
            told
        }
        Fate::Pass => deliver(office, &act).await,
    };
    sleep(journey.back).await;
    (told, came_twice)
}

fn arrive_later<T: Send + 'static>(office: &Office, act: Act<T>, after: Duration) {
    let office = office.clone();
    tokio::spawn(async move {
        sleep(after).await;
        deliver(&office, &act).await;
    });
}

/// The node takes in the request, unless it is dead. If it dies meanwhile, nobody answers.
async fn deliver<T>(office: &Office, act: &Act<T>) -> Told<T> {
    office.node.thawed().await;
    if office.node.is_dead() {
        return Told::NoAnswer;
    }
    let acted = act(office.workers.clone());
    tokio::select! {
        biased;
        () = office.node.death() => Told::NoAnswer,
        acted = acted => {
            office.node.thawed().await;
            match acted {
                _ if office.node.is_dead() => Told::NoAnswer,
                Ok(answer) => Told::Answer(answer),
                Err(problem) => Told::Refused(problem),
            }
        }
    }
}
