//! Sessions of workers.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, delete, get, post};
use crate::routes::doubts::PageOf;
use crate::routes::worker_sessions::LogPage;

/// Problems of a call of a session.
const OF_SESSIONS: &[Code] =
    &[Code::SessionUnknown, Code::SessionReplaced, Code::NameNotAllowed, Code::NodeUnreachable];

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/worker-sessions", "open_worker_session", "Open a worker session")
            .about(
                "Opens a session for a worker, which names the workflows, tasks and actions that it has the code of. The \
                 worker keeps it alive by polling.",
            )
            .body::<api::OpenWorkerSession>()
            .answers::<api::OpenedWorkerSession>(201, "The session is open.")
            .fails_with(&[Code::WorkflowTaken, Code::QuotaExceeded, Code::NameNotAllowed, Code::ShuttingDown]),
        get("/api/v1/worker-sessions", "list_worker_sessions", "List worker sessions")
            .about("Lists the worker sessions of all nodes that answer, the oldest first.")
            .query::<PageOf>()
            .answers_page::<api::WorkerSession>("One page of sessions."),
        get("/api/v1/worker-workflows", "list_worker_workflows", "List versions of workflows of workers")
            .about(
                "Lists the versions of workflows whose code workers have, by name and version: how many open runs each has, and \
                 which sessions offer it. A version that is `drained` can be removed from the workers.",
            )
            .query::<PageOf>()
            .answers_page::<api::WorkerWorkflowVersion>("One page of versions."),
        post("/api/v1/worker-sessions/announce", "announce_worker_session", "Tell a node of a session")
            .about(
                "Nodes call it to tell each other that a session of an instance was opened. Older sessions of the instance end. \
                 A worker never needs it.",
            )
            .body::<api::AnnounceWorkerSession>()
            .answers::<api::AnnouncedWorkerSession>(200, "Whether the node has no newer session of the instance.")
            .fails_with(&[Code::NameNotAllowed]),
        post("/api/v1/worker-sessions/{id}/poll", "poll_worker_session", "Wait for messages")
            .about(
                "Waits for messages to the worker and keeps its session alive. If no answer arrives, send the request again \
                 with the same number.",
            )
            .body::<api::PollWorkerSession>()
            .answers::<api::WorkerMessages>(200, "The messages, if there are any.")
            .fails_with(&[
                Code::SessionUnknown,
                Code::SessionReplaced,
                Code::RequestSuperseded,
                Code::NameNotAllowed,
                Code::NodeUnreachable,
            ]),
        post("/api/v1/worker-sessions/{id}/commit", "commit_worker_session", "Hand in what runs did")
            .about(
                "Takes in what the code of runs did, and results of tasks and actions. If no answer arrives, send the request \
                 again with the same number: nothing is done twice.",
            )
            .body::<api::CommitWorkerSession>()
            .answers::<api::WorkerMessages>(200, "What the server has to say about the runs, and other messages.")
            .fails_with(&[
                Code::SessionUnknown,
                Code::SessionReplaced,
                Code::RequestSuperseded,
                Code::NameNotAllowed,
                Code::NodeUnreachable,
            ]),
        get("/api/v1/worker-sessions/{id}/runs/{run}/log", "read_worker_log", "Read records of a run")
            .about("Returns records of a run that its `activate` message had no room for.")
            .query::<LogPage>()
            .answers::<api::WorkerLogPage>(200, "The next records.")
            .fails_with(OF_SESSIONS),
        delete("/api/v1/worker-sessions/{id}", "close_worker_session", "End a worker session")
            .about("Ends a session. Its runs go on with other workers at once.")
            .answers::<api::WorkerSession>(200, "The session as it was.")
            .fails_with(OF_SESSIONS),
        post("/api/v1/push-workers", "create_push_worker", "Register a function that work is sent to")
            .about(
                "Registers a function that cannot poll. The server sends it the messages of a worker as signed requests, and \
                 reads what it did from the responses. Only this response shows the secret.",
            )
            .body::<api::CreatePushWorker>()
            .answers::<api::IssuedPushWorker>(201, "The push worker and its secret.")
            .with(&["Location"])
            .fails_with(&[Code::AddressNotAllowed, Code::NameTaken, Code::WorkflowTaken, Code::QuotaExceeded]),
        get("/api/v1/push-workers", "list_push_workers", "List push workers")
            .about("Lists the functions that work is sent to, without their secrets.")
            .query::<PageOf>()
            .answers_page::<api::PushWorker>("One page of push workers."),
        get("/api/v1/push-workers/{id}", "get_push_worker", "Get one push worker")
            .about("Returns one push worker, without its secret.")
            .answers::<api::PushWorker>(200, "The push worker."),
        delete("/api/v1/push-workers/{id}", "delete_push_worker", "Delete a push worker")
            .about("Sends a function no more work. Its runs wait for another worker.")
            .answers::<api::PushWorker>(200, "The push worker as it was."),
    ];
    let about = "Workers run workflow code, tasks and entity actions in your own process. Use an SDK: these are the calls that it \
                 makes, and the worker protocol has their meaning.";
    Group { tag: "Workers", about, examples: "workers", operations }
}
