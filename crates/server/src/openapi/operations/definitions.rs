//! Workflow definitions.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, delete, get, patch, post};
use crate::routes::definitions::DefinitionFilter;
use crate::routes::request::Deletion;

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/workflow-definitions", "create_definition", "Upload a definition")
            .about(
                "Uploads a workflow definition as JSON or YAML. A version never changes: uploading the same content again \
                 returns the existing definition, and different content under the same version fails with \
                 `definition_exists`. The schema of definitions is at `/schemas/workflow-definition.json`.",
            )
            .document::<api::CreateDefinition>()
            .answers::<api::Definition>(201, "The definition was created.")
            .with(&["Location"])
            .answers::<api::Definition>(200, "The definition already exists with the same content.")
            .with(&["Location"])
            .fails_with(&[
                Code::DefinitionExists,
                Code::WorkflowTaken,
                Code::DefinitionInvalid,
                Code::UnprotectedEffect,
                Code::AddressNotAllowed,
                Code::DefinitionLimitReached,
            ]),
        get("/api/v1/workflow-definitions", "list_definitions", "List definitions")
            .about("Lists definitions by id, without their documents.")
            .query::<DefinitionFilter>()
            .answers_page::<api::DefinitionSummary>("One page of definitions."),
        get("/api/v1/workflow-definitions/{id}", "get_definition", "Get a definition")
            .about("Returns a definition with its document.")
            .answers::<api::Definition>(200, "The definition.")
            .with(&["ETag"])
            .fails_with(&[Code::DefinitionNotFound]),
        patch("/api/v1/workflow-definitions/{id}", "change_definition", "Archive a definition")
            .about("Archives a definition, or restores it. An archived definition starts no new runs; open runs continue.")
            .body::<api::ChangeDefinition>()
            .answers::<api::Definition>(200, "The definition after the change.")
            .with(&["ETag"])
            .fails_with(&[Code::DefinitionNotFound]),
        delete("/api/v1/workflow-definitions/{id}", "delete_definition", "Delete a definition")
            .about("Deletes a definition. Fails with `definition_in_use` while open runs need it.")
            .query::<Deletion>()
            .answers::<api::Definition>(200, "The definition as it was.")
            .with(&["ETag"])
            .fails_with(&[Code::DefinitionNotFound, Code::DefinitionInUse]),
    ];
    let about = "A definition is a workflow written as a JSON or YAML document. Each version is immutable; a run keeps the version it started with.";
    Group { tag: "Workflow definitions", about, examples: "definitions", operations }
}
