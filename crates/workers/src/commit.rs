//! Polls and commits: requests whose answers carry messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_api as api;
use hapax_api::{Code, DurationText, Problem};
use hapax_engine::model::Name;

use crate::caller::WorkerCaller;
use crate::calls::{ReadResult, read_result};
use crate::limits::{COMMIT_WAIT, MAX_CONCURRENCY, MAX_RESULTS, MAX_RUNS_PER_COMMIT};
use crate::mailbox::{CommitGate, Envelope, Lane, Taken};
use crate::messages::{Drop as DropMessage, text_of};
use crate::session::{LateOutcome, Session};
use crate::workers::{Workers, gone};

/// Text of an answer: a `WorkerMessages` as JSON.
pub type Answer = Bytes;

impl Workers {
    /// Waits for messages. The same number again gets the same answer.
    pub async fn poll(
        &self,
        caller: WorkerCaller<'_>,
        id: &str,
        asked: &api::PollWorkerSession,
    ) -> Result<Answer, Problem> {
        let arrived_at = self.engine.clock().monotonic();
        check_request(asked.sequence, asked.free)?;
        let session = self.get(caller, id)?;
        session.begin_poll(asked.sequence);
        let mut lane = session.lanes[0].lock().await;
        if !session.is_newest_poll(asked.sequence) {
            return Err(superseded(asked.sequence));
        }
        // A copy of this poll was answered while this one waited.
        if lane.sequence == asked.sequence
            && let Some(answer) = &lane.answer
        {
            return Ok(answer.clone());
        }
        session.begin_request(Lane::Poll, asked.free);
        session.wait_for_news(asked.sequence, self.poll_for()).await;
        if !session.is_newest_poll(asked.sequence) {
            return Err(superseded(asked.sequence));
        }
        // Nothing is awaited from here to the kept answer, so no message is lost in between.
        still_there(&session)?;
        let answer = answer_of(session.take(Lane::Poll, arrived_at));
        self.serve_again();
        (lane.sequence, lane.answer) = (asked.sequence, Some(answer.clone()));
        Ok(answer)
    }

    /// Takes in what runs did. The same number again does nothing twice, and gets the same answer. A copy of an older
    /// commit that comes late is refused: its items were taken in long ago.
    pub async fn commit(
        &self,
        caller: WorkerCaller<'_>,
        id: &str,
        asked: api::CommitWorkerSession,
    ) -> Result<Answer, Problem> {
        let arrived_at = self.engine.clock().monotonic();
        check_request(asked.sequence, asked.free)?;
        check_size(&asked)?;
        let session = self.get(caller, id)?;
        let mut lane = session.lanes[1].lock().await;
        if asked.sequence < lane.sequence {
            return Err(superseded(asked.sequence));
        }
        let is_known = lane.sequence == asked.sequence;
        if is_known && let Some(answer) = &lane.answer {
            return Ok(answer.clone());
        }
        if !is_known {
            session.begin_request(Lane::Commit, asked.free);
            (lane.sequence, lane.answer) = (asked.sequence, None);
            let commit = submit(&session, asked);
            self.record_late(caller, &session);
            session.wait_for_commit(&commit, COMMIT_WAIT).await;
        }
        still_there(&session)?;
        let answer = answer_of(session.take(Lane::Commit, arrived_at));
        self.serve_again();
        lane.answer = Some(answer.clone());
        Ok(answer)
    }

    /// Keeps outcomes that came too late as evidence.
    fn record_late(&self, caller: WorkerCaller<'_>, session: &Session) {
        for LateOutcome { key, attempt, fence, output, is_known } in session.take_late() {
            let engine = self.engine.workspace(session.workspace.clone());
            let may_tell = caller.may_tell_about();
            let is_accepted = move |workflow: &Name| is_known || may_tell(workflow);
            engine.record_late_output(&key, attempt, fence, output.text(), is_accepted);
        }
    }
}

/// Hands in what a commit carries. It is done as a whole before anything is awaited.
fn submit(session: &Arc<Session>, asked: api::CommitWorkerSession) -> Arc<CommitGate> {
    let commit = CommitGate::of(asked.runs.len());
    for run in &asked.runs {
        match session.find_link(&run.activation).filter(|link| link.run == run.run) {
            Some(link) => link.deliver(&run.items, &commit),
            None => {
                session.tell_late_items(&run.activation, &run.items);
                let forget = DropMessage {
                    kind: "drop",
                    run: &run.run,
                    activation: &run.activation,
                    why: "closed",
                    problem: None,
                };
                session.post(Envelope::new(text_of(&forget)).in_commit(Some(commit.clone())));
                commit.done();
            }
        }
    }
    for result in &asked.results {
        match read_result(result.text()) {
            Ok(ReadResult::Call(call, result)) => session.end_call(&call, result),
            Ok(ReadResult::Late(late)) => session.tell_late_result(late),
            Err(why) => tracing::warn!(session = %session.id, %why, "a result of a worker makes no sense"),
        }
    }
    commit
}

fn still_there(session: &Session) -> Result<(), Problem> {
    session.has_ended().map_or(Ok(()), |end| Err(gone(Some(end))))
}

fn superseded(sequence: u64) -> Problem {
    let detail =
        format!("Request {sequence} of this session is out of date: one with a higher number was received.");
    Problem::new(Code::RequestSuperseded, detail)
}

fn check_request(sequence: u64, free: u32) -> Result<(), Problem> {
    if sequence == 0 {
        let detail = "The requests of a session are numbered from 1.";
        return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/sequence"));
    }
    if free > MAX_CONCURRENCY {
        let detail = format!("`free` is a number from 0 to {MAX_CONCURRENCY}.");
        return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/free"));
    }
    Ok(())
}

fn check_size(asked: &api::CommitWorkerSession) -> Result<(), Problem> {
    let counts =
        [("/runs", asked.runs.len(), MAX_RUNS_PER_COMMIT), ("/results", asked.results.len(), MAX_RESULTS)];
    for (path, count, most) in counts {
        if count > most {
            let detail = format!("{count} are more than the {most} that one commit may have.");
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", path));
        }
    }
    Ok(())
}

/// Text of an answer. The messages are JSON already.
fn answer_of(taken: Taken) -> Answer {
    let Taken { hold_for, messages } = taken;
    // Whole milliseconds, and never more than it is.
    let hold_for = DurationText(Duration::from_millis(u64::try_from(hold_for.as_millis()).unwrap_or(0)));
    let bytes: usize = messages.iter().map(|message| message.len() + 1).sum();
    let mut text = String::with_capacity(bytes + 64);
    text.push_str("{\"holdFor\":\"");
    text.push_str(&hold_for.to_string());
    text.push_str("\",\"messages\":[");
    for (place, message) in messages.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(message);
    }
    text.push_str("]}");
    text.into()
}
