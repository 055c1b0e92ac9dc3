//! Steps with an unknown outcome.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::doubts::PageOf;

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/doubts", "list_doubts", "List doubts")
            .about("Lists steps with an unknown outcome that nobody has resolved, oldest first.")
            .query::<PageOf>()
            .answers_page::<api::Doubt>("One page of doubts."),
        get("/api/v1/doubts/{run}/{step}", "get_doubt", "Get a doubt")
            .about("Returns a step with an unknown outcome that nobody has resolved.")
            .answers::<api::Doubt>(200, "The doubt."),
        post("/api/v1/doubts/{run}/{step}/resolve", "resolve_doubt", "Resolve a doubt")
            .about(
                "Decides what happened to a step in doubt. Send the `version` you saw, so that your decision applies to \
                 that doubt and no later one. The first decision counts, and the audit log keeps it. Decisions that \
                 cannot be undone need a manager.",
            )
            .body::<api::ResolveDoubt>()
            .answers::<api::ResolvedDoubt>(200, "The doubt is resolved.")
            .fails_with(&[
                Code::RulingIncomplete,
                Code::NeedsManager,
                Code::NeedsSecondPerson,
                Code::DoubtChanged,
                Code::DoubtResolved,
                Code::NobodyActs,
            ]),
        post("/api/v1/doubts/{run}/{step}/propose", "propose_ruling", "Propose a decision about a doubt")
            .about(
                "Records what you would decide, and why. It settles nothing until a second person confirms it: another \
                 person at the identity provider, or another credential. One of the two is a manager, unless the \
                 decision is `happened`. The journal of the run lists proposals.",
            )
            .body::<api::ResolveDoubt>()
            .answers::<api::ProposedRuling>(200, "The proposal is in the journal.")
            .fails_with(&[Code::RulingIncomplete, Code::DoubtChanged, Code::NobodyActs]),
        post("/api/v1/doubts/{run}/{step}/confirm", "confirm_ruling", "Confirm a proposed decision")
            .about(
                "Confirms what somebody else proposed, and so resolves the doubt. Look for yourself first: `reason` says \
                 what you checked. The audit log names both people.",
            )
            .body::<api::ConfirmRuling>()
            .answers::<api::ResolvedDoubt>(200, "The doubt is resolved.")
            .fails_with(&[
                Code::RulingIncomplete,
                Code::NeedsManager,
                Code::NeedsSecondPerson,
                Code::DoubtChanged,
                Code::DoubtResolved,
                Code::NobodyActs,
            ]),
    ];
    let about = "A step is in doubt when its effect may or may not have happened, for example because the connection broke after the request was sent. Find out, then resolve it.";
    Group { tag: "Doubts", about, examples: "doubts", operations }
}
