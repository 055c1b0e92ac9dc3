//! The ledger of effects and the audit log.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get};
use crate::routes::audit::AuditQuery;
use crate::routes::doubts::PageOf;

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/ledger", "list_ledger", "List effects of the workspace")
            .about("Lists the effects of runs, newest run first, then the effects of operations on entities. `limit` counts runs and operations.")
            .query::<PageOf>()
            .answers_page::<api::LedgerEntry>("The effects of one page of runs and operations."),
        get("/api/v1/ledger/{key}", "get_effect", "Get an effect")
            .about("Returns one effect, by the idempotency key that its provider received.")
            .answers::<api::LedgerEntry>(200, "The effect."),
        get("/api/v1/workflow-runs/{id}/ledger", "list_run_ledger", "List effects of a run")
            .about("Lists the effects of one run with every attempt, claim, probe, ruling and rejected write.")
            .answers_page::<api::LedgerEntry>("Every effect of the run."),
        get("/api/v1/audit", "list_audit", "List the audit log")
            .about("Lists the actions of people in the workspace, oldest first: the person, credential and role, the address and the trace.")
            .query::<AuditQuery>()
            .answers_page::<api::JournalEntry>("One page of audit entries.")
            .fails_with(&[Code::NotFound]),
        get("/api/v1/audit/{id}", "get_audit_entry", "Get an audit entry")
            .about("Returns one entry of the audit log.")
            .answers::<api::JournalEntry>(200, "The entry."),
    ];
    let about = "The ledger shows what happened to every effect. The audit log shows what people did.";
    Group { tag: "Ledger and audit", about, examples: "ledger", operations }
}
