//! Runs: start, read and control them.

use hapax_api as api;
use hapax_api::Code;
use serde_json::json;

use crate::openapi::operation::{Group, get, post};
use crate::routes::doubts::PageOf;
use crate::routes::runs::retry_plan::PlannedRetry;
use crate::routes::runs::showing::{RunFilter, RunParts, StepPage};

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/workflow-runs", "create_run", "Start a run")
            .about(
                "Starts a run of a workflow. Name it with `workflow`: `order` for the latest version, `order@2` for version 2. Set `idempotencyKey` to a key from your domain, such as \
                 `process-order-4711`: a second request with this key and the same input returns the first run and \
                 starts nothing. Set `subject` to allow only one open run per definition and subject.",
            )
            .body::<api::CreateRun>()
            .answers::<api::CreatedRun>(201, "The run was created.")
            .with(&["Location"])
            .answers::<api::CreatedRun>(200, "A run with this `idempotencyKey` already exists.")
            .with(&["Location"])
            .fails_with(&[
                Code::DefinitionNotFound,
                Code::DefinitionArchived,
                Code::IdempotencyKeyMissing,
                Code::IdempotencyKeySpent,
                Code::InputInvalid,
                Code::OperationPending,
                Code::QuotaExceeded,
                Code::UnprotectedEffect,
            ]),
        post("/api/v1/workflow-runs/batch", "create_run_batch", "Start many runs")
            .about(
                "Starts up to 100 runs in one request. Each item succeeds or fails on its own, and gets the answer that a \
                 single request would have got.",
            )
            .body::<api::CreateRunBatch>()
            .answers::<api::CreatedRunBatch>(200, "One result per item, in the order of the request."),
        get("/api/v1/workflow-runs", "list_runs", "List runs")
            .about(
                "Lists runs, newest first. Filters narrow each other. With `currentStep` or `waitsFor` a page may be short, \
                 or empty, although more follow: read on until `nextCursor` is absent.",
            )
            .query::<RunFilter>()
            .answers_page::<api::Run>("One page of runs.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
        get("/api/v1/workflow-runs/{id}", "get_run", "Get a run")
            .about("Returns a run with the steps of its current generation.")
            .query::<RunParts>()
            .answers::<api::RunDetail>(200, "The run and its steps.")
            .with(&["ETag"]),
        get("/api/v1/workflow-runs/{id}/steps", "list_steps", "List the steps of a run")
            .about("Lists the steps of a run's current generation in the order they started, or the newest first.")
            .query::<StepPage>()
            .answers_page::<api::Step>("One page of steps."),
        get("/api/v1/workflow-runs/{id}/result", "get_run_result", "Get the result of a run")
            .about(
                "Returns how a run ended: `output` if it completed, `failure` if it failed or was cancelled. Send \
                 `Prefer: wait=N` to wait for the run to end.",
            )
            .waits()
            .answers::<api::RunResult>(200, "The run has ended.")
            .answers::<api::RunResult>(202, "The run is still open. Ask again after `Retry-After` seconds.")
            .with(&["Retry-After"]),
        post("/api/v1/workflow-runs/{id}/cancel", "cancel_run", "Cancel a run")
            .about(
                "Asks a run to compensate its completed steps and end as CANCELLED. With `descendants`, cancels a root run \
                 together with everything it started.",
            )
            .optional_body::<api::CancelRun>()
            .answers::<api::Run>(200, "The run after the request. It may still be compensating.")
            .with(&["ETag"])
            .fails_with(&[Code::RunEnded, Code::AlreadyAsked, Code::NotARoot]),
        post("/api/v1/workflow-runs/{id}/pause", "pause_run", "Pause a run")
            .about("Asks a run to stop at the next step. It stays PAUSED until you resume it.")
            .optional_body::<api::SteerRun>()
            .answers::<api::Run>(200, "The run after the request. It pauses at the next step.")
            .with(&["ETag"])
            .fails_with(&[Code::RunEnded, Code::AlreadyAsked]),
        post("/api/v1/workflow-runs/{id}/resume", "resume_run", "Resume a run")
            .about("Lets a paused run continue.")
            .optional_body::<api::SteerRun>()
            .answers::<api::Run>(200, "The run, which continues.")
            .with(&["ETag"])
            .fails_with(&[Code::RunEnded, Code::RunNotPaused, Code::AlreadyAsked, Code::StepInDoubt]),
        post("/api/v1/workflow-runs/{id}/retry", "retry_run", "Retry a failed run")
            .about(
                "Reopens a failed run. Without `fromStep`, only the failed step runs again. With it, that step and \
                 everything after it run again. If an effect that already happened would happen again, the request fails \
                 with `effects_would_repeat`; a manager can allow it by naming the steps in `repeatEffects`.",
            )
            .optional_body::<api::RetryRun>()
            .answers::<api::Run>(200, "The run, which is open again.")
            .with(&["ETag"])
            .fails_with(&[
                Code::RunEnded,
                Code::RunNotFailed,
                Code::RunUndone,
                Code::StepInDoubt,
                Code::EffectsWouldRepeat,
                Code::KeyTaken,
                Code::OperationPending,
                Code::AlreadyAsked,
                Code::NeedsManager,
                Code::RulingIncomplete,
            ]),
        get("/api/v1/workflow-runs/{id}/retry-plan", "get_retry_plan", "Preview a retry")
            .about(
                "Shows what a retry would do: which effects stay done, which run again, and which of those would happen a \
                 second time. Changes nothing.",
            )
            .query::<PlannedRetry>()
            .answers::<api::RetryPlan>(200, "The plan.")
            .fails_with(&[Code::RunNotFailed, Code::RunUndone, Code::StepInDoubt, Code::RunEnded]),
        post("/api/v1/workflow-runs/{id}/reveal", "reveal_run", "Show what a run hides")
            .about(
                "Shows one run with the fields that documents mark as sensitive; everywhere else they are `[masked]`. \
                 The audit log has who looked and why.",
            )
            .body::<api::RevealRun>()
            .answers::<api::RunDetail>(200, "The run with its steps.")
            .with(&["ETag"])
            .fails_with(&[Code::RulingIncomplete, Code::PayloadsHidden]),
        post("/api/v1/workflow-runs/{id}/signals", "send_signal", "Send a signal")
            .about(
                "Sends a signal to a run. The signal is stored until the run reads it. Set `signalId` so that a second \
                 delivery of the same signal is ignored.",
            )
            .body::<api::SendSignal>()
            .answers::<api::SentSignal>(200, "The signal is stored, or its `signalId` was seen before.")
            .fails_with(&[Code::RunEnded, Code::TooManySignals]),
        post("/api/v1/workflow-runs/{id}/approvals/{step}", "answer_approval", "Answer an approval")
            .about(
                "Approves, rejects or edits what an approval step asks. Your credential decides who you are: the step says \
                 which roles and requesters may answer, and whoever had the run started does not, unless the step allows it. \
                 The first answer counts; one before the step asks does not.",
            )
            .body::<api::AnswerApproval>()
            .answers::<api::SentSignal>(200, "The answer is stored.")
            .fails_with(&[
                Code::ApprovalForOthers,
                Code::OwnApproval,
                Code::ApprovalNotAsked,
                Code::ApprovalOver,
                Code::RunEnded,
                Code::TooManySignals,
            ]),
        get("/api/v1/workflow-runs/{id}/events", "list_run_events", "List the events of a run")
            .about("Lists what happened to a run as a whole, oldest first.")
            .query::<PageOf>()
            .answers_page::<api::RunEvent>("One page of events."),
        get("/api/v1/workflow-runs/{id}/events/stream", "stream_run_events", "Stream the events of a run")
            .about(
                "Streams events as they happen, as server-sent events named `run`, `step` and finally `end`. If the \
                 connection breaks, send the last id you saw as `Last-Event-ID` to continue.",
            )
            .header(
                "Last-Event-ID",
                "Id of the last event you saw.",
                json!({ "type": "string", "pattern": "^[0-9]+$" }),
            )
            .answers_text(200, "A stream of server-sent events.", &["text/event-stream"])
            .fails_with(&[Code::TooManyStreams]),
        get("/api/v1/workflow-runs/{id}/notes", "list_run_notes", "List the journal of a run")
            .about("Lists what was tried, found and decided about a run, oldest first. Includes notes by people.")
            .query::<PageOf>()
            .answers_page::<api::JournalEntry>("One page of journal entries."),
        post("/api/v1/workflow-runs/{id}/notes", "add_run_note", "Add a note to a run")
            .about("Adds a note to the journal of a run. You can add notes to runs that have ended.")
            .body::<api::AddNote>()
            .answers::<api::JournalEntry>(201, "The note was added."),
    ];
    let about = "A run executes a workflow definition once. It survives crashes, waits for timers, promises and signals, and records every step.";
    Group { tag: "Workflow runs", about, examples: "runs", operations }
}
