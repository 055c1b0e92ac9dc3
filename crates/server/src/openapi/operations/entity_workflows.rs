//! Entity workflows.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, delete, get, post, put};
use crate::routes::doubts::PageOf;
use crate::routes::entity_workflows::DiagramOf;
use crate::routes::request::Deletion;

/// Problems of uploading an entity workflow.
const UPLOADING: &[Code] = &[
    Code::EntityTypeTaken,
    Code::EntityWorkflowInvalid,
    Code::TableNotAllowed,
    Code::UnprotectedEffect,
    Code::UncoveredClaimState,
    Code::AddressNotAllowed,
    Code::QuotaExceeded,
    Code::Concurrency,
];

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/entity-workflows", "create_entity_workflow", "Upload an entity workflow")
            .about(
                "Uploads an entity workflow as JSON or YAML. Uploading the same content again returns the existing workflow; \
                 different content under the same name fails with `name_taken`. The schema is at \
                 `/schemas/entity-workflow.json`.",
            )
            .document::<api::PutEntityWorkflow>()
            .answers::<api::EntityWorkflow>(201, "The entity workflow was created.")
            .with(&["ETag", "Location"])
            .answers::<api::EntityWorkflow>(200, "The entity workflow already exists, unchanged.")
            .with(&["ETag", "Location"])
            .fails_with(&[Code::NameTaken])
            .fails_with(UPLOADING),
        get("/api/v1/entity-workflows", "list_entity_workflows", "List entity workflows")
            .about("Lists entity workflows by id, without their documents.")
            .query::<PageOf>()
            .answers_page::<api::EntityWorkflowSummary>("One page of entity workflows."),
        get("/api/v1/entity-workflows/{name}", "get_entity_workflow", "Get an entity workflow")
            .about("Returns an entity workflow with its document.")
            .answers::<api::EntityWorkflow>(200, "The entity workflow.")
            .with(&["ETag"]),
        put("/api/v1/entity-workflows/{name}", "put_entity_workflow", "Replace an entity workflow")
            .about("Replaces an entity workflow, or creates it. With `If-Match`, replaces only the version you saw.")
            .document::<api::PutEntityWorkflow>()
            .answers::<api::EntityWorkflow>(200, "The entity workflow is in place.")
            .with(&["ETag", "Location"])
            .answers::<api::EntityWorkflow>(201, "The entity workflow was created.")
            .with(&["ETag", "Location"])
            .fails_with(UPLOADING),
        delete("/api/v1/entity-workflows/{name}", "delete_entity_workflow", "Delete an entity workflow")
            .about(
                "Deletes an entity workflow. Fails with `entity_workflow_in_use` while an operation under it is pending or in \
                 doubt. Its entities stay as they are; no step begins until you upload a workflow for their type again.",
            )
            .query::<Deletion>()
            .answers::<api::EntityWorkflow>(200, "The entity workflow as it was.")
            .with(&["ETag"])
            .fails_with(&[Code::EntityWorkflowInUse]),
        get("/api/v1/entity-workflows/{name}/diagram", "draw_entity_workflow", "Draw an entity workflow")
            .about("Returns a diagram of the statuses and the steps between them, as Mermaid or SVG.")
            .query::<DiagramOf>()
            .answers_text(200, "The diagram.", &["text/vnd.mermaid", "image/svg+xml"])
            .with(&["ETag"])
            .fails_with(&[Code::NotAcceptable]),
    ];
    let about = "An entity workflow says which statuses a type of entity has, which steps lead from one to the next, and what each step does.";
    Group { tag: "Entity workflows", about, examples: "entity_workflows", operations }
}
