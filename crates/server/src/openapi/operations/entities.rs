//! Entities, their steps and operations.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::doubts::PageOf;
use crate::routes::entities::{EntityFilter, RequesterQuery};
use crate::routes::operations::OperationFilter;

/// Problems of taking a step.
const STEPPING: &[Code] = &[
    Code::IdempotencyKeyMissing,
    Code::InvalidIdempotencyKey,
    Code::RequesterNotAllowed,
    Code::OverrideRequired,
    Code::NeedsManager,
    Code::ClaimFailed,
    Code::StepNotAllowed,
    Code::OperationInDoubt,
    Code::StepRejected,
    Code::IdempotencyKeyConflict,
    Code::ActionPanicked,
    Code::ActionFailed,
];

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/entities/{type}", "create_entity", "Create an entity")
            .about(
                "Creates an entity in one of the initial statuses of its workflow. Creating the same entity again returns \
                 the existing one; a different one with the same id fails with `entity_exists`.",
            )
            .body::<api::CreateEntity>()
            .answers::<api::CreatedEntity>(201, "The entity was created.")
            .with(&["ETag"])
            .answers::<api::CreatedEntity>(200, "The entity already exists, unchanged.")
            .with(&["ETag"])
            .fails_with(&[Code::EntityExists, Code::EntityElsewhere, Code::Concurrency, Code::QuotaExceeded]),
        get("/api/v1/entities/{type}", "list_entities", "List entities")
            .about("Lists entities of one type by id.")
            .query::<EntityFilter>()
            .answers_page::<api::Entity>("One page of entities."),
        get("/api/v1/entities/{type}/{id}", "get_entity", "Get an entity")
            .about("Returns an entity with its pending operation and the steps you may take now.")
            .query::<RequesterQuery>()
            .answers::<api::EntityDetail>(200, "The entity.")
            .with(&["ETag"])
            .fails_with(&[Code::RequesterNotAllowed]),
        post("/api/v1/entities/{type}/{id}/steps/{stepKey}", "take_step", "Take a step")
            .about(
                "Takes a step with an entity. The step is validated, claims the entity if the workflow says so, runs its \
                 action once and records the outcome. The request waits for the action for as long as `Prefer: wait=N` \
                 says, and 60 seconds by default.",
            )
            .waits()
            .optional_body::<api::TakeStep>()
            .answers::<api::TakenStep>(200, "The step is done.")
            .with(&["ETag"])
            .answers::<api::TakenStep>(202, "The step is in progress. `Location` is its operation.")
            .with(&["Location"])
            .fails_with(STEPPING),
        post("/api/v1/entities/{type}/{id}/steps/{stepKey}/override", "override_step", "Override a step")
            .about(
                "Takes an irreversible step although an earlier operation may already have done it. Find out first. Needs a \
                 manager and a reason; the audit log keeps both.",
            )
            .waits()
            .body::<api::OverrideStep>()
            .answers::<api::TakenStep>(200, "The step is done.")
            .with(&["ETag"])
            .answers::<api::TakenStep>(202, "The step is in progress. `Location` is its operation.")
            .with(&["Location"])
            .fails_with(STEPPING)
            .fails_with(&[Code::RulingIncomplete]),
        post("/api/v1/entities/{type}/{id}/action-tokens", "create_action_token", "Create an action token")
            .about(
                "Creates a token with which a page in a browser sees this entity and takes its steps, for minutes. The element \
                 `<hapax-actions>` uses it. The token is shown only in this response, and ends with the credential.",
            )
            .optional_body::<api::CreateActionToken>()
            .answers::<api::IssuedActionToken>(201, "The token.")
            .fails_with(&[Code::InvalidIdempotencyKey, Code::RequesterNotAllowed]),
        get("/api/v1/entities/{type}/{id}/notes", "list_entity_notes", "List the journal of an entity")
            .about("Lists what was seen, done and said about an entity, oldest first.")
            .query::<PageOf>()
            .answers_page::<api::JournalEntry>("One page of journal entries."),
        post("/api/v1/entities/{type}/{id}/notes", "add_entity_note", "Add a note to an entity")
            .about("Adds a note to the journal of an entity.")
            .body::<api::AddEntityNote>()
            .answers::<api::JournalEntry>(201, "The note was added."),
        get("/api/v1/entities/{type}/{id}/operations", "list_entity_operations", "List operations of an entity")
            .about("Lists the operations of one entity, newest first.")
            .query::<PageOf>()
            .answers_page::<api::Operation>("One page of operations."),
        get("/api/v1/operations", "list_operations", "List operations")
            .about("Lists operations of all entities, newest first.")
            .query::<OperationFilter>()
            .answers_page::<api::Operation>("One page of operations.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
        get("/api/v1/operations/{id}", "get_operation", "Get an operation")
            .about("Returns an operation with its history.")
            .answers::<api::OperationDetail>(200, "The operation."),
        post("/api/v1/operations/{id}/resolve", "resolve_operation", "Resolve an operation in doubt")
            .about(
                "Decides what happened to an operation in doubt. Send the `attempt` you saw. The first decision counts, and \
                 the audit log keeps it.",
            )
            .body::<api::ResolveOperation>()
            .answers::<api::Operation>(200, "The operation after the decision.")
            .fails_with(&[
                Code::RulingIncomplete,
                Code::NeedsManager,
                Code::OperationNotInDoubt,
                Code::DoubtResolved,
                Code::DoubtChanged,
                Code::Concurrency,
            ]),
    ];
    let about = "An entity is a business object with a status, such as an invoice. Steps move it from one status to the next; each request to take a step is an operation, done at most once.";
    Group { tag: "Entities", about, examples: "entities", operations }
}
