//! Workspaces and credentials.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::admin::{CredentialList, InWorkspace};
use crate::routes::doubts::PageOf;

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/workspaces", "create_workspace", "Create a workspace")
            .about("Creates a workspace. Creating the same one again returns the existing one.")
            .body::<api::CreateWorkspace>()
            .answers::<api::Workspace>(201, "The workspace was created.")
            .answers::<api::Workspace>(200, "The workspace already exists, unchanged.")
            .fails_with(&[Code::NameTaken]),
        get("/api/v1/workspaces", "list_workspaces", "List workspaces")
            .about("Lists the workspaces of the installation.")
            .query::<PageOf>()
            .answers_page::<api::Workspace>("One page of workspaces."),
        get("/api/v1/workspaces/{id}", "get_workspace", "Get a workspace")
            .about("Returns your own workspace. An admin of the installation can get any.")
            .answers::<api::Workspace>(200, "The workspace."),
        post("/api/v1/credentials", "create_credential", "Create a credential")
            .about("Creates a credential. The API key is shown only in this response. An admin of the installation can name a workspace.")
            .query::<InWorkspace>()
            .body::<api::CreateCredential>()
            .answers::<api::IssuedCredential>(201, "The credential and its API key.")
            .with(&["Location"])
            .fails_with(&[Code::QuotaExceeded, Code::NotFound]),
        get("/api/v1/credentials", "list_credentials", "List credentials")
            .about("Lists credentials without their keys. An admin of the installation can name a workspace.")
            .query::<CredentialList>()
            .answers_page::<api::Credential>("One page of credentials.")
            .fails_with(&[Code::NotFound]),
        get("/api/v1/credentials/{id}", "get_credential", "Get a credential")
            .about("Returns a credential without its key.")
            .query::<InWorkspace>()
            .answers::<api::Credential>(200, "The credential."),
        post("/api/v1/credentials/{id}/rotate", "rotate_credential", "Rotate an API key")
            .about("Gives a credential a new API key. Idempotency keys of the credential stay valid.")
            .query::<InWorkspace>()
            .optional_body::<api::RotateCredential>()
            .answers::<api::IssuedCredential>(200, "The credential and its new API key.")
            .fails_with(&[Code::LastAdmin]),
        post("/api/v1/credentials/{id}/revoke", "revoke_credential", "Revoke a credential")
            .about("Revokes a credential: at once on this node, within five seconds on all others.")
            .query::<InWorkspace>()
            .optional_body::<api::RevokeCredential>()
            .answers::<api::Credential>(200, "The revoked credential.")
            .fails_with(&[Code::LastAdmin]),
    ];
    let about =
        "A workspace separates one team or tenant from another. A credential has a role in one workspace.";
    Group { tag: "Workspaces and credentials", about, examples: "admin", operations }
}
