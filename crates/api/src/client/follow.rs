//! Live events of a run, over as many connections as needed.

use reqwest::Response;
use tokio::time::{Instant, sleep, timeout};

use super::event_text::{EventText, TextEvent};
use super::limits::{FIRST_PAUSE, MAX_PAUSE, STREAM_SILENCE};
use super::routes::run_path;
use super::sending::{Ask, read};
use super::{Client, ClientError};
use crate::{Run, RunEvent, Step};

/// One event of a followed run.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// An event of the run as a whole.
    Run(RunEvent),
    /// A step that changed.
    Step(Box<Step>),
    /// The run has ended; nothing follows.
    End(Box<Run>),
}

/// Follows one run. Reconnects when the server ends a stream or the connection is cut, and
/// continues where it stopped.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    path: String,
    seen: Option<String>,
    stream: Option<(Response, EventText)>,
    is_over: bool,
}

impl Client {
    /// Follows the run `id` from its beginning.
    pub fn follow_run(&self, id: &str) -> Result<Follower, ClientError> {
        let path = run_path(id, "/events/stream")?;
        Ok(Follower { client: self.clone(), path, seen: None, stream: None, is_over: false })
    }
}

impl Follower {
    /// Returns the next event, or `None` after the end of the run.
    pub async fn next(&mut self) -> Result<Option<Followed>, ClientError> {
        let mut pause = FIRST_PAUSE;
        // Limit for a server that is away. Each event starts the time anew.
        let give_up_at = Instant::now() + self.client.patience;
        let mut was_connected = self.stream.is_some();
        while !self.is_over {
            match self.read_on().await {
                Ok(Some(event)) => return self.understand(event).map(Some),
                // The server ended the stream normally, as it does from time to time.
                Ok(None) => was_connected = true,
                Err(error)
                    if error.is_passing(was_connected || self.seen.is_some())
                        && Instant::now() + pause < give_up_at =>
                {
                    self.stream = None;
                }
                Err(error) => return Err(error),
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        Ok(None)
    }

    async fn read_on(&mut self) -> Result<Option<TextEvent>, ClientError> {
        if self.stream.is_none() {
            let mut ask = Ask::read(self.path.clone()).header("accept", "text/event-stream".into());
            if let Some(seen) = &self.seen {
                ask = ask.header("last-event-id", seen.clone());
            }
            let response = self.client.open(&ask, None).await?;
            if !response.status().is_success() {
                read(response).await?;
                return Ok(None);
            }
            self.stream = Some((response, EventText::default()));
        }
        let Some((response, text)) = &mut self.stream else { return Ok(None) };
        loop {
            if let Some(event) = text.next() {
                return Ok(Some(event));
            }
            let silent = || ClientError::Unreachable {
                detail: "the stream of events fell silent".into(),
                was_sent: true,
            };
            let chunk = timeout(STREAM_SILENCE, response.chunk()).await.map_err(|_| silent())?;
            match chunk.map_err(|error| ClientError::from_transport(&error))? {
                Some(chunk) => text.take(&chunk)?,
                None => {
                    self.stream = None;
                    return Ok(None);
                }
            }
        }
    }

    fn understand(&mut self, event: TextEvent) -> Result<Followed, ClientError> {
        if event.id.is_some() {
            self.seen = event.id;
        }
        let unknown = |error: serde_json::Error| ClientError::Protocol {
            status: None,
            detail: format!(
                "an event of the stream cannot be read ({error}); the server may be of another version"
            ),
        };
        match event.name.as_str() {
            "run" => serde_json::from_str(&event.data).map(Followed::Run).map_err(unknown),
            "step" => serde_json::from_str(&event.data).map(Followed::Step).map_err(unknown),
            "end" => {
                self.is_over = true;
                serde_json::from_str(&event.data).map(Followed::End).map_err(unknown)
            }
            name => {
                let detail = format!("the stream has an event {name:?}, which this client does not know");
                Err(ClientError::Protocol { status: None, detail })
            }
        }
    }
}
