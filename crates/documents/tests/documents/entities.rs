//! Entity workflows: all problems are reported at once, each with its place and rule.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::support::World;
use hapax_documents::entity::{Ended, HTTP_TARGET, PlannedAfterEffect, Rejection, WORKFLOW_TARGET};
use hapax_documents::limits::{MAX_ENTITY_STEPS, MAX_REQUESTERS, MAX_STATUSES};
use hapax_documents::{
    CheckedEntity, DeclaredNames, EntityCall, EntityDocument, Format, HostServices, HttpAnswer, HttpFault,
    Problem, WorkspaceServices, check_entity, check_entity_bytes, entity_schema, is_entity,
};
use hapax_engine::model::{Action, FailureClass, Name, OperationEnd, RevertRule, WorkspaceId};
use proptest::prelude::*;
use serde_json::{Value, json};

fn name(text: &str) -> Name {
    Name::new("test", text).unwrap()
}

/// Host services of the workspace of these documents.
fn own(services: &HostServices) -> WorkspaceServices<'_> {
    static ACME: LazyLock<WorkspaceId> = LazyLock::new(|| WorkspaceId::new("acme").unwrap());
    services.of(&ACME)
}

fn known() -> DeclaredNames {
    let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>());
    DeclaredNames { tasks: None, workflows: names(&["w"]), secrets: names(&["s"]), addresses: None }
}

fn judge(text: &str) -> Result<CheckedEntity, Vec<Problem>> {
    check_entity(text, Format::Any, &known())
}

/// All problems as `code at path`.
fn problems(document: &Value) -> Vec<String> {
    let problems = match judge(&document.to_string()) {
        Ok(checked) => checked.warnings().to_vec(),
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{} at {}", problem.code, problem.path)).collect()
}

fn set(fields: &mut Value, more: Value) {
    let fields = fields.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(fields.remove(name)),
            value => drop(fields.insert(name.clone(), value.clone())),
        }
    }
}

/// A valid document with these fields replaced; null removes a field.
fn invoice(more: Value) -> Value {
    let mut document = json!({
        "name": "invoice-billing",
        "module": "billing",
        "entity": "invoice",
        "statusTypes": ["draft", "approved", "closing", "closed"],
        "steps": [
            { "stepId": 10, "stepKey": "approve", "status": "draft", "successfulState": "approved" },
            {
                "stepId": 20,
                "stepKey": "close",
                "status": "approved",
                "claimState": { "admin": ["closing", "approved"] },
                "successfulState": { "admin": "closed" },
                "action": { "admin": "CloseBillingActionUseCase" },
            },
        ],
    });
    set(&mut document, more);
    document
}

/// The valid document with these fields of the `close` step replaced.
fn closing(more: Value) -> Value {
    let mut document = invoice(json!({}));
    set(&mut document["steps"][1], more);
    document
}

fn document(value: &Value) -> EntityDocument {
    judge(&value.to_string()).unwrap_or_else(|problems| panic!("{problems:#?}")).document().clone()
}

/// G1.1, S1.14, S1.17, S1.19: the step of the seed, in both spellings, and in both formats.
#[test]
fn the_step_of_the_seed_is_read_in_json_and_yaml() {
    let json =
        closing(json!({ "claimState": null, "successfulClaimState": { "admin": ["closing", "approved"] } }));
    let yaml = "
name: invoice-billing
kind: entity
module: billing
entity: invoice
statusTypes: [draft, approved, closing, closed]
steps:
  - { stepId: 10, stepKey: approve, status: [draft], successfulState: approved }
  - stepId: 20
    stepKey: close
    status: approved
    claimState: { admin: [closing, approved] }
    successfulState: { admin: closed }
    action: { admin: { handler: CloseBillingActionUseCase, transaction: false } }
";
    let (json, yaml) = (judge(&json.to_string()).unwrap(), judge(yaml).unwrap());
    assert_eq!(json.canonical(), yaml.canonical());
    assert_eq!(json.document(), yaml.document());
    assert!(json.warnings().is_empty() && yaml.warnings().is_empty());
    let workflow = json.document().workflow();
    let step = workflow.find_step("close").unwrap();
    let view = step.view(Some(&name("admin"))).unwrap();
    assert_eq!((step.id, view.status), (20, vec![name("approved")]));
    assert_eq!(
        view.action,
        Some(Action::Handler { name: name("CloseBillingActionUseCase"), transaction: false })
    );
    let claim = view.claim.unwrap();
    assert_eq!(
        (claim.into, claim.revert_to, view.successful_state),
        (name("closing"), name("approved"), name("closed"))
    );
    assert!(step.view(None).is_none(), "S1.18: it is for admins");
    assert_eq!(workflow.module, name("billing"));
}

/// S1.18: one requester takes a claim. The other, which is serialised elsewhere, does not.
#[test]
fn each_field_may_differ_by_requester() {
    let document = document(&closing(json!({
        "status": { "admin": ["approved", "draft"], "system": "approved" },
        "claimState": { "admin": ["closing", "approved"] },
        "successfulState": "closed",
        "action": { "admin": { "http": { "method": "POST", "url": "https://x.example" } }, "system": { "workflow": "w" } },
        "effect": { "admin": "non_idempotent", "system": "idempotent" },
        "recovery": { "admin": "hold" },
        "irreversible": { "admin": true },
        "retry": { "admin": "returns", "system": "refused" },
        "successAfterEffect": { "admin": "mails", "system": { "http": { "method": "POST", "url": "https://x.example" } } },
        "failureAfterEffect": { "system": { "workflow": "w" } },
        "validation": { "admin": { "when": "input.ok", "message": "no" } },
    })));
    let step = document.workflow().find_step("close").unwrap();
    let (admin, system) =
        (step.view(Some(&name("admin"))).unwrap(), step.view(Some(&name("system"))).unwrap());
    assert!(admin.claim.is_some() && system.claim.is_none());
    assert_eq!(admin.action, Some(Action::Hosted(name("http"))));
    assert_eq!(system.action, Some(Action::Workflow(name("w"))));
    assert_eq!(admin.success_after_effect, Some(name("mails")));
    assert_eq!(system.success_after_effect, Some(name(HTTP_TARGET)));
    assert_eq!(system.failure_after_effect, Some(name(WORKFLOW_TARGET)));
    assert!(admin.irreversible.is_irreversible() && !system.irreversible.is_irreversible());
    assert!(step.view(None).is_none(), "nobody else has an action");
    let refused = document.check_call("close", Some(&name("admin")), &call(json!({ "ok": false })));
    assert_eq!(refused, Err(Rejection { message: "no".into(), code: "validation_failed".into() }));
    assert_eq!(document.check_call("close", Some(&name("system")), &call(json!({ "ok": false }))), Ok(()));
    let targets: Vec<&str> = document.targets().into_iter().map(Name::as_str).collect();
    let workflows: Vec<&str> = document.started_workflows().into_iter().map(Name::as_str).collect();
    assert_eq!((targets, workflows), (vec!["mails"], vec!["w"]));
    assert!(document.handlers().is_empty());
}

/// S1.48-S1.53: violations of the six rules and more are reported together, each with code, path, line and column.
#[test]
fn all_problems_are_reported_at_once_with_rule_line_and_column() {
    let text = "name: my workflow
module: billing
entity: invoice
colour: red
statusTypes: [draft, approved, closing, held, closed]
steps:
  - { stepId: 1, stepKey: one, status: draft, successfulState: approved, claimState: [closing] }
  - { stepId: 2, stepKey: two, status: draft, successfulState: approved, claimState: [clsing, draft] }
  - { stepId: 3, stepKey: three, status: draft, successfulState: approved, claimState: { admin: [held, held] } }
  - stepId: 4
    stepKey: four
    status: [draft, held]
    successfulState: approved
    successfulClaimState: [held, draft]
  - { stepId: 5, stepKey: five, status: draft, successfulState: closed, claimState: [closed, draft] }
  - { stepId: 6, stepKey: six, status: approved, successfulState: closed, successfulClaimState: { admin: [held, approved] } }
  - { stepId: 6, stepKey: 7, status: lost, successfulState: closed, effect: non_idempotent, action: A }
";
    let found = judge(text).unwrap_err();
    let told: Vec<String> = found
        .iter()
        .map(|problem| {
            let at = problem.at.unwrap();
            format!("{}:{} {} {}", at.line, at.column, problem.code, problem.path)
        })
        .collect();
    for wanted in [
        "1:7 bad_name /name",
        "4:9 unknown_field /colour",
        "7:86 claim_is_pair /steps/0/claimState",
        "8:87 claim_statuses_known /steps/1/claimState/0",
        "9:97 claim_goes_elsewhere /steps/2/claimState/admin",
        "14:28 claim_leaves_status /steps/3/successfulClaimState/0",
        "15:86 claim_is_transient /steps/4/claimState/0",
        "16:113 one_revert_per_claim /steps/5/successfulClaimState/admin/1",
        "17:15 steps_distinct /steps/6/stepId",
        "17:27 wrong_type /steps/6/stepKey",
        "17:38 status_known /steps/6/status",
    ] {
        assert!(told.contains(&wanted.to_string()), "{wanted} in {told:#?}");
    }
    assert!(
        !told.iter().any(|problem| problem.contains("unreachable") || problem.contains("unprotected")),
        "what only follows from other errors is not told: {told:#?}"
    );
}

/// S1.48
#[test]
fn rule_1_a_claim_is_a_pair_of_texts() {
    for bad in [
        json!(["closing"]),
        json!(["closing", "approved", "draft"]),
        json!([]),
        json!("closing"),
        json!(7),
        json!({ "admin": "closing" }),
        json!({ "admin": { "into": "closing" } }),
    ] {
        let told = problems(&closing(json!({ "claimState": bad })));
        assert!(
            told.iter().any(|told| told.starts_with("claim_is_pair at /steps/1/claimState")),
            "{bad}: {told:?}"
        );
    }
    let told = problems(&closing(json!({ "claimState": { "admin": ["closing", 1] } })));
    assert_eq!(told, ["claim_is_pair at /steps/1/claimState/admin/1"]);
}

#[test]
fn a_claim_is_given_once() {
    let told = problems(&closing(json!({ "successfulClaimState": { "admin": ["closing", "approved"] } })));
    assert_eq!(told, ["claim_given_twice at /steps/1/successfulClaimState"]);
}

#[test]
fn a_document_that_is_no_entity_workflow_is_reported_as_such() {
    for (more, wanted) in [
        (json!({ "name": null }), "missing_field at /name"),
        (json!({ "module": null }), "missing_field at /module"),
        (json!({ "entity": null }), "missing_field at /entity"),
        (json!({ "entity": ".." }), "bad_name at /entity"),
        (json!({ "kind": "source" }), "unknown_value at /kind"),
        (json!({ "statusTypes": [] }), "out_of_range at /statusTypes"),
        (
            json!({ "statusTypes": ["draft", "approved", "closing", "closed", "draft"] }),
            "duplicate_status at /statusTypes/4",
        ),
        (json!({ "statusTypes": vec!["x"; MAX_STATUSES + 1] }), "out_of_range at /statusTypes"),
        (json!({ "steps": [] }), "out_of_range at /steps"),
        (json!({ "steps": vec![7; MAX_ENTITY_STEPS + 1] }), "out_of_range at /steps"),
        (json!({ "steps": [7] }), "wrong_type at /steps/0"),
        (json!({ "initial": "lost" }), "status_known at /initial"),
        (json!({ "initial": ["draft", "closing"] }), "claim_status_reserved at /initial/1"),
        (json!({ "initial": {} }), "wrong_type at /initial"),
        (json!({ "claims": { "revertTo": "somewhere" } }), "unknown_value at /claims/revertTo"),
        (json!({ "claims": { "revert": "recorded" } }), "unknown_field at /claims/revert"),
        (json!({ "table": "a; drop table b" }), "bad_table at /table"),
        (json!({ "table": "hapax_runs" }), "bad_table at /table"),
        (json!({ "table": { "id": "id" } }), "missing_field at /table/name"),
        (json!({ "table": { "name": "t", "version": "status" } }), "bad_table at /table"),
        (json!({ "table": { "name": "t", "columns": [] } }), "unknown_field at /table/columns"),
        (json!({ "table": 7 }), "wrong_type at /table"),
        (json!({ "version": 1 }), "unknown_field at /version"),
    ] {
        let told = problems(&invoice(more.clone()));
        assert_eq!(told, [wanted], "{more}");
    }
}

#[test]
fn problems_of_a_step_are_reported() {
    let many: serde_json::Map<String, Value> =
        (0..=MAX_REQUESTERS).map(|n| (format!("r{n}"), json!("draft"))).collect();
    let http = |more: Value| {
        let mut http = json!({ "method": "POST", "url": "https://x.example" });
        set(&mut http, more);
        json!({ "action": { "http": http } })
    };
    for (more, wanted) in [
        (json!({ "stepId": null }), "missing_field at /steps/1/stepId"),
        (json!({ "stepId": -1 }), "out_of_range at /steps/1/stepId"),
        (json!({ "stepKey": "a b" }), "bad_name at /steps/1/stepKey"),
        (json!({ "stepKey": "approve" }), "steps_distinct at /steps/1/stepKey"),
        (json!({ "status": null }), "missing_field at /steps/1/status"),
        (json!({ "status": [] }), "out_of_range at /steps/1/status"),
        (json!({ "status": {} }), "out_of_range at /steps/1/status"),
        (json!({ "status": many }), "out_of_range at /steps/1/status"),
        (json!({ "status": 7 }), "wrong_type at /steps/1/status"),
        (json!({ "status": ["approved", "approved"] }), "duplicate_status at /steps/1/status/1"),
        (
            json!({ "status": { "admin": "approved", "http": "approved" } }),
            "reserved_requester at /steps/1/status/http",
        ),
        (json!({ "status": { "admin": "approved", "a b": "approved" } }), "bad_name at /steps/1/status/a b"),
        (json!({ "successfulState": ["closed"] }), "wrong_type at /steps/1/successfulState"),
        (json!({ "successfulState": { "system": "closed" } }), "step_usable at /steps/1"),
        (json!({ "effect": "safe" }), "unknown_value at /steps/1/effect"),
        (json!({ "recovery": { "admin": "undo" } }), "unknown_value at /steps/1/recovery/admin"),
        (json!({ "irreversible": "yes" }), "unknown_value at /steps/1/irreversible"),
        (json!({ "irreversible": 7 }), "wrong_type at /steps/1/irreversible"),
        (json!({ "irreversible": true }), "irreversible_reverts at /steps/1/recovery/admin"),
        (json!({ "irreversible": true, "recovery": "revert" }), "irreversible_reverts at /steps/1/recovery"),
        (json!({ "retry": 3 }), "wrong_type at /steps/1/retry"),
        (json!({ "claim_sate": ["closing", "approved"] }), "unknown_field at /steps/1/claim_sate"),
        (json!({ "action": 7 }), "wrong_type at /steps/1/action"),
        (json!({ "action": { "target": "x" } }), "reserved_requester at /steps/1/action/target"),
        (json!({ "action": { "handler": "A", "workflow": "w" } }), "one_of at /steps/1/action"),
        (
            json!({ "action": { "handler": "A", "transactional": true } }),
            "unknown_field at /steps/1/action/transactional",
        ),
        (json!({ "action": { "workflow": "w", "input": 7 } }), "wrong_type at /steps/1/action/input"),
        (json!({ "action": { "workflow": "other" } }), "unknown_workflow at /steps/1/action/workflow"),
        (json!({ "action": { "http": "https://x.example" } }), "wrong_type at /steps/1/action/http"),
        (http(json!({ "method": null })), "missing_field at /steps/1/action/http/method"),
        (http(json!({ "colour": 1 })), "unknown_field at /steps/1/action/http/colour"),
        (http(json!({ "timeout": "1h" })), "out_of_range at /steps/1/action/http/timeout"),
        (http(json!({ "body": "{{ state.x }}" })), "unknown_variable at /steps/1/action/http/body"),
        (http(json!({ "body": "{{ result.x }}" })), "unknown_variable at /steps/1/action/http/body"),
        (
            http(json!({ "headers": { "Authorization": "Bearer x" } })),
            "inline_secret at /steps/1/action/http/headers/Authorization",
        ),
        (
            http(json!({ "headers": { "Idempotency-Key": "x" } })),
            "reserved_header at /steps/1/action/http/headers/Idempotency-Key",
        ),
        (http(json!({ "data": 7 })), "wrong_type at /steps/1/action/http/data"),
        (json!({ "validation": "entity.status" }), "wrong_type at /steps/1/validation"),
        (json!({ "validation": [] }), "out_of_range at /steps/1/validation"),
        (json!({ "validation": { "when": "input.ok" } }), "missing_field at /steps/1/validation/message"),
        (
            json!({ "validation": [{ "when": "input.", "message": "no" }] }),
            "bad_expression at /steps/1/validation/0/when",
        ),
        (
            json!({ "validation": { "when": "input.ok", "message": "no", "code": "a b" } }),
            "bad_name at /steps/1/validation/code",
        ),
        (json!({ "successAfterEffect": HTTP_TARGET }), "reserved_name at /steps/1/successAfterEffect"),
        (
            json!({ "successAfterEffect": { "http": { "method": "POST", "url": "https://x", "timeout": "56s" } } }),
            "out_of_range at /steps/1/successAfterEffect/http/timeout",
        ),
        (
            json!({ "successAfterEffect": { "handler": "x" } }),
            "reserved_requester at /steps/1/successAfterEffect/handler",
        ),
        (
            json!({ "successAfterEffect": { "workflow": "w", "input": { "why": "{{ failure }}" } } }),
            "unknown_variable at /steps/1/successAfterEffect/input/why",
        ),
    ] {
        let told = problems(&closing(more.clone()));
        assert!(told.contains(&wanted.to_string()), "{more}: {told:?}");
        assert!(told.len() <= 2, "{more}: {told:?}");
    }
}

/// S1.22, CONTRACT §11: the step of the seed in the seed's spelling. It is shown in camelCase, and problems point at
/// the original text.
#[test]
fn the_snake_case_of_the_seed_is_accepted_and_shown_as_camel_case() {
    let seed: Value = serde_json::from_str(
        r#"{
            "step_id": 20,
            "step_key": "close",
            "status": "approved",
            "successful_claim_state": { "admin": ["closing", "approved"] },
            "successful_state": { "admin": "closed" },
            "action": { "admin": "CloseBillingActionUseCase" }
        }"#,
    )
    .unwrap();
    let document = |step: &Value| {
        json!({
            "name": "billing", "module": "billing", "entity": "invoice",
            "status_types": ["approved", "closing", "closed"],
            "claims": { "revert_to": "recorded" },
            "table": { "name": "invoices", "updated_at": "changed_at" },
            "steps": [step],
        })
        .to_string()
    };
    let checked = judge(&document(&seed)).unwrap();
    let shown: Value = serde_json::from_str(checked.canonical()).unwrap();
    assert_eq!(
        shown["steps"][0],
        json!({
            "stepId": 20,
            "stepKey": "close",
            "status": "approved",
            "claimState": { "admin": ["closing", "approved"] },
            "successfulState": { "admin": "closed" },
            "action": { "admin": "CloseBillingActionUseCase" },
        })
    );
    assert_eq!(shown["statusTypes"], json!(["approved", "closing", "closed"]));
    assert_eq!(shown["claims"], json!({ "revertTo": "recorded" }));
    assert_eq!(shown["table"]["updatedAt"], "changed_at");
    assert!(!checked.canonical().contains("step_"), "{}", checked.canonical());
    assert_eq!(judge(checked.canonical()).unwrap().canonical(), checked.canonical(), "both mean the same");

    let mut wrong = seed.clone();
    wrong["successful_claim_state"] = json!({ "admin": ["closing", "closing"] });
    let found = judge(&document(&wrong)).unwrap_err();
    assert!(found.iter().any(|problem| problem.path == "/steps/0/successful_claim_state/admin"), "{found:?}");
    let mut twice = seed;
    twice["stepKey"] = json!("close");
    let found = judge(&document(&twice)).unwrap_err();
    assert_eq!((found[0].code, found[0].path.as_str()), ("given_twice", "/steps/0/step_key"));
}

#[test]
fn a_slip_of_the_keyboard_gets_a_suggestion() {
    let found = judge(&closing(json!({ "claim_sate": ["closing", "approved"] })).to_string()).unwrap_err();
    assert!(found[0].message.contains("did you mean \"claimState\"?"), "{}", found[0].message);
}

/// S1.57, S1.58
#[test]
fn an_action_declared_not_to_be_idempotent_must_be_protected() {
    let bare = json!({ "claimState": null, "effect": "non_idempotent" });
    let mut document = closing(bare);
    document["statusTypes"] = json!(["draft", "approved", "closed"]);
    assert_eq!(problems(&document), ["unprotected_effect at /steps/1/effect"]);
    document["steps"][1]["action"] = json!({ "admin": { "handler": "A", "transaction": true } });
    assert!(problems(&document).is_empty());
    document["steps"][1]["action"] = Value::Null;
    set(&mut document["steps"][1], json!({ "action": null, "successAfterEffect": "mails" }));
    assert!(problems(&document).is_empty());
}

/// S1.53: the rule can be lifted, because each claim records the status to revert to.
#[test]
fn recorded_reverts_lift_the_sixth_rule() {
    let mut document = invoice(json!({}));
    let step = json!({ "stepId": 30, "stepKey": "drop", "status": "draft", "successfulState": "closed", "claimState": ["closing", "draft"] });
    document["steps"].as_array_mut().unwrap().push(step);
    assert_eq!(problems(&document), ["one_revert_per_claim at /steps/2/claimState/1"]);
    document["claims"] = json!({ "revertTo": "recorded" });
    let checked = judge(&document.to_string()).unwrap();
    assert_eq!(checked.document().workflow().revert_rule, RevertRule::Recorded);
    document["claims"] = json!({ "revertTo": "declared" });
    assert_eq!(problems(&document), ["one_revert_per_claim at /steps/2/claimState/1"]);
}

#[test]
fn data_is_only_laid_over_entities_of_the_store() {
    let http =
        json!({ "action": { "http": { "method": "POST", "url": "https://x.example", "data": { "a": 1 } } } });
    let mut document = closing(http);
    assert!(problems(&document).is_empty());
    document["table"] = json!("billing.invoices");
    assert_eq!(problems(&document), ["data_not_kept at /steps/1/action/http/data"]);
}

#[test]
fn written_as_json_it_is_the_document_again() {
    let all = closing(json!({
        "validation": [{ "when": "input.ok", "message": "no {{ input.ok }}", "code": "c" }, { "when": "has(input.a)", "message": "m" }],
        "action": {
            "admin": { "http": { "method": "POST", "url": "https://x.example/{{ entity.id }}", "headers": { "Authorization": "Bearer secret://s" },
                "body": { "a": "{{ input.a }}" }, "timeout": "20s", "output": { "id": "{{ result.id }}" }, "data": "{{ response.body }}",
                "success": [200], "retryable": ["5xx"], "keyHeader": "X-Key" } },
            "system": { "handler": "A", "transaction": true },
            "other": { "workflow": "w", "input": { "x": "{{ operation.id }}" } },
        },
        "effect": { "admin": "non_idempotent" }, "recovery": "hold", "irreversible": true, "retry": "returns",
        "successAfterEffect": { "target": "mails" },
        "failureAfterEffect": { "http": { "method": "POST", "url": "https://x.example", "body": "{{ failure }}", "timeout": "5s" } },
    }));
    let own_table = invoice(json!({
        "description": "d", "initial": ["draft", "approved"], "claims": { "revertTo": "recorded" },
        "table": { "name": "billing.invoices", "id": "number", "data": ["total"] },
    }));
    for given in [all, own_table, invoice(json!({ "table": "billing.invoices" }))] {
        let checked = judge(&given.to_string()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let written = serde_json::to_string(checked.document()).unwrap();
        let again = judge(&written).unwrap_or_else(|problems| panic!("{written}: {problems:#?}"));
        assert_eq!(again.document(), checked.document());
        assert_eq!(again.canonical(), checked.canonical());
    }
}

#[test]
fn entity_workflows_are_told_from_other_documents() {
    for text in [
        "kind: entity\nname: x",
        "name: x\nstatusTypes: [a]",
        "name: x\nstatus_types: [a]",
        "{\"name\": \"x\", \"status_types\": []}",
        "name: x\nsteps:\n  - stepKey: a",
        "name: x\nstatus_types: [a\nsteps: {",
        "{\"status_types\": [",
    ] {
        assert!(is_entity(text.as_bytes()), "{text}");
    }
    for text in ["name: x\nversion: 1\nsteps:\n  - name: a", "name: x\nactions: []", "", "[]", "kind: other"]
    {
        assert!(!is_entity(text.as_bytes()), "{text}");
    }
    assert!(!is_entity(&[0xff, 0xfe]));
    assert_eq!(check_entity_bytes(&[0xff], Format::Any, &known()).unwrap_err()[0].code, "not_utf8");
}

#[test]
fn the_schema_asks_for_what_the_checks_ask_for() {
    let schema = entity_schema();
    assert_eq!(schema["properties"]["statusTypes"]["maxItems"], MAX_STATUSES);
    assert_eq!(schema["properties"]["steps"]["maxItems"], MAX_ENTITY_STEPS);
    for required in schema["required"].as_array().unwrap() {
        let required = required.as_str().unwrap();
        assert_eq!(problems(&invoice(json!({ required: null })))[0], format!("missing_field at /{required}"));
    }
    for required in schema["$defs"]["step"]["required"].as_array().unwrap() {
        let required = required.as_str().unwrap();
        assert_eq!(
            problems(&closing(json!({ required: null })))[0],
            format!("missing_field at /steps/1/{required}")
        );
    }
}

/// S1.17, S1.54, S2.15-S2.21: the examples are valid, without warnings.
#[test]
fn every_example_is_valid_without_warnings() {
    let folder = format!("{}/examples/entities", env!("CARGO_MANIFEST_DIR"));
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(is_entity(text.as_bytes()));
        let checked = check_entity(&text, Format::Any, &DeclaredNames::default())
            .unwrap_or_else(|problems| panic!("{:?}: {problems:#?}", file.path()));
        assert!(checked.warnings().is_empty(), "{:?}: {:#?}", file.path(), checked.warnings());
        let workflow = checked.document().workflow();
        assert!(workflow.find_uncovered(&BTreeSet::new()).is_some(), "S1.42: it needs a janitor");
        assert!(workflow.find_uncovered(&BTreeSet::from([workflow.module.clone()])).is_none());
        names.push(workflow.name.to_string());
    }
    names.sort();
    assert_eq!(names, ["invoice-billing", "payment", "refund"]);
}

/// S1.42, S1.46: a module without a janitor is named, with its workflow.
#[test]
fn an_uncovered_claim_is_a_problem_that_names_workflow_and_module() {
    let checked = judge(&invoice(json!({})).to_string()).unwrap();
    assert_eq!(checked.check_coverage(&BTreeSet::from([name("billing")])), None);
    let problem = checked.check_coverage(&BTreeSet::from([name("orders")])).unwrap();
    assert_eq!((problem.code, problem.path.as_str()), ("uncovered_claim_state", "/module"));
    assert!(problem.message.contains("invoice-billing") && problem.message.contains("billing"), "{problem}");
}

fn call(input: Value) -> EntityCall {
    EntityCall {
        entity: json!({ "type": "payment", "id": "p/1", "status": "authorized", "version": 3, "data": { "cents": 500, "auth_id": "au_1" } }),
        input,
        requester: json!("support"),
        operation: json!({ "id": "op_1", "key": "k", "attempt": 1 }),
    }
}

fn example(file: &str) -> EntityDocument {
    let path = format!("{}/examples/entities/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    check_entity(&text, Format::Any, &DeclaredNames::default()).unwrap().document().clone()
}

/// CONTRACT 6: `probe.settle` says when a "did not happen" counts.
#[test]
fn a_probe_says_how_long_a_doubt_must_stand_before_a_denial_counts() {
    let with = |settle: Option<&str>, timeout: &str| {
        let mut probe = json!({ "method": "GET", "url": "https://bank.example/lookup?key={{ key }}", "happened": "response.status == 200" });
        if let Some(settle) = settle {
            probe["settle"] = json!(settle);
        }
        let document = json!({
            "name": "refunds", "module": "billing", "entity": "refund", "statusTypes": ["ready", "sending", "sent"],
            "steps": [{
                "stepId": 1, "stepKey": "send", "status": "ready", "successfulState": "sent", "claimState": ["sending", "ready"],
                "effect": "non_idempotent", "probe": probe,
                "action": { "http": { "method": "POST", "url": "https://bank.example/refunds", "timeout": timeout } },
            }],
        });
        let checked = check_entity(&document.to_string(), Format::Any, &DeclaredNames::default()).unwrap();
        checked.document().probe_settle("send", None).unwrap().as_secs()
    };
    assert_eq!(with(Some("3m"), "10s"), 180);
    assert_eq!(with(Some("2s"), "60s"), 2, "who says so knows their provider");
    assert_eq!(with(None, "1s"), 60);
    assert_eq!(with(None, "60s"), 130, "twice what the request and its answer may take");
    assert_eq!(example("payment.yaml").probe_settle("capture", None), None);
}

#[test]
fn conditions_reject_before_the_claim_with_message_and_code() {
    let invoice = example("invoice.yaml");
    let mut call = call(json!({ "payment_id": "p", "cents": 400 }));
    call.entity["data"] = json!({ "total_cents": 500 });
    let refused = invoice.check_call("apply_payment", None, &call).unwrap_err();
    assert_eq!(refused.message, "The payment of 400 is not the total of 500.");
    assert_eq!(refused.code, "wrong_amount");
    call.input["cents"] = json!(500);
    assert_eq!(invoice.check_call("apply_payment", None, &call), Ok(()));
    call.input = json!({});
    assert_eq!(
        invoice.check_call("apply_payment", None, &call).unwrap_err().message,
        "Say which payment it is."
    );
    call.entity["data"] = json!({});
    let refused = invoice.check_call("approve", None, &call).unwrap_err();
    assert_eq!(refused.code, "expression_failed", "{refused:?}");
}

fn answered(status: u16, kind: &str, body: Value) -> Result<HttpAnswer, HttpFault> {
    let headers = vec![("Content-Type".to_string(), kind.to_string())];
    Ok(HttpAnswer { status, headers, body: body.to_string().into_bytes() })
}

/// The action is sent under the operation's key, and its answer supplies the result and a patch of the data.
#[tokio::test]
async fn a_request_carries_the_key_and_its_answer_becomes_result_and_data() {
    let world = World::default();
    let services =
        world.services(|_, _| Ok(json!({})), |_, _| crate::support::answer(200, json!({ "id": "cap_1" })));
    let payment = example("payment.yaml");
    let end = payment
        .call_http(
            "capture",
            None,
            &call(json!({})),
            "op_1:capture",
            (hapax_engine::Hold::unlimited(), 1),
            own(&services),
        )
        .await;
    let OperationEnd::Done { result, data } = end else { panic!("{end:?}") };
    assert_eq!(result.as_str(), r#"{"capture_id":"cap_1"}"#);
    assert_eq!(data.unwrap().as_str(), r#"{"capture_id":"cap_1"}"#);
    assert_eq!(world.names(), ["POST https://payments.example/v1/authorizations/au_1/capture"]);
    let sent = payment
        .plan_http("authorize", None, &call(json!({})), "op_1:authorize", own(&services))
        .await
        .unwrap();
    assert!(sent.headers.contains(&("Idempotency-Key".to_string(), "op_1:authorize".to_string())));
    let bearer = "Bearer s3cr3t-of-acme-payments";
    assert!(
        sent.headers.contains(&("Authorization".to_string(), bearer.to_string())),
        "the secret of its workspace"
    );
    assert_eq!(sent.body.unwrap(), br#"{"amount":500,"reference":"p/1"}"#);
    assert_eq!(sent.timeout.as_secs(), 20);
    let failure = payment.plan_http("settle", None, &call(json!({})), "k", own(&services)).await.unwrap_err();
    assert_eq!(failure.code(), Some("document_changed"));
}

/// S1.31, S1.32: a refusal by the service is a rejection, an error is a failure, and an unknown outcome stays unknown.
#[tokio::test]
async fn answers_tell_what_became_of_the_action() {
    let payment = example("payment.yaml");
    let services = World::default().echo();
    let sent = payment.plan_http("capture", None, &call(json!({})), "k", own(&services)).await.unwrap();
    let given = call(json!({ "failure_reason": "r" }));
    let judged = |step: &str, answer| payment.judge_http(step, None, &given, &sent, answer);
    let json = "application/json";
    for status in [400, 402, 404, 422] {
        let OperationEnd::Rejected(failure) = judged("capture", answered(status, json, json!({}))) else {
            panic!("{status}")
        };
        assert_eq!(failure.class(), FailureClass::Permanent);
        assert_eq!(failure.code(), Some(format!("http_{status}").as_str()));
    }
    let problem = json!({ "title": "No", "detail": "The card has expired.", "code": "card_expired" });
    let OperationEnd::Rejected(failure) =
        judged("capture", answered(402, "application/problem+json", problem))
    else {
        panic!("a problem is a rejection")
    };
    assert_eq!((failure.message(), failure.code()), ("The card has expired.", Some("card_expired")));
    let OperationEnd::Rejected(failure) = judged(
        "capture",
        answered(402, json, json!({ "error": "card declined", "auth": "s3cr3t-of-acme-payments" })),
    ) else {
        panic!("402 is a rejection")
    };
    assert_eq!(
        failure.message(),
        "POST https://payments.example/v1/authorizations/au_1/capture was answered 402: \
         {\"auth\":\"[redacted]\",\"error\":\"card declined\"}"
    );
    let class = |step, answer| match judged(step, answer) {
        OperationEnd::Failed(failure) => failure.class(),
        other => panic!("{other:?}"),
    };
    for (status, wanted) in [
        (408, FailureClass::Unknown),
        (409, FailureClass::Permanent),
        (425, FailureClass::Retryable),
        (429, FailureClass::Retryable),
        (500, FailureClass::Unknown),
        (503, FailureClass::Unknown),
        (302, FailureClass::Permanent),
    ] {
        assert_eq!(class("capture", answered(status, json, json!({}))), wanted, "{status}");
    }
    // An action declared idempotent may be retried under its key. That does not show whether it happened.
    assert_eq!(class("fail", answered(503, json, json!({}))), FailureClass::Unknown, "declared idempotent");
    let fault = |fault| class("capture", Err(fault));
    assert_eq!(fault(HttpFault::Unknown { why: "cut".into() }), FailureClass::Unknown);
    assert_eq!(fault(HttpFault::NotSent { why: "no route".into() }), FailureClass::Retryable);
    assert_eq!(fault(HttpFault::Refused { why: "private".into() }), FailureClass::Permanent);
    assert_eq!(fault(HttpFault::TooLarge { limit: 1 }), FailureClass::Unknown);
    assert_eq!(
        class("capture", answered(200, json, json!({ "no": "id" }))),
        FailureClass::Unknown,
        "it happened, and nobody knows what it gave"
    );
}

#[tokio::test]
async fn after_effects_are_filled_in_from_what_the_outbox_carries() {
    let world = World::default();
    let services = world.services(|_, _| Ok(json!({})), |_, _| crate::support::answer(200, json!({})));
    let payload = json!({
        "entity": { "id": "p/1" }, "operation": { "id": "op_1" }, "step": "capture", "requester": "support",
        "status": "captured", "result": { "capture_id": "cap_1" }, "input": {},
    });
    let payment = example("payment.yaml");
    let planned = payment
        .plan_after_effect("capture", None, Ended::Success, &payload, "op_1:after", own(&services))
        .await;
    let PlannedAfterEffect::Http(call) = planned.unwrap() else { panic!("a request") };
    assert_eq!(call.body.as_deref().unwrap(), br#"{"capture":"cap_1","payment":"p/1"}"#);
    assert!(call.headers.contains(&("Idempotency-Key".to_string(), "op_1:after".to_string())));
    let json = "application/json";
    let taken = |status| {
        let answer = answered(status, json, json!({}));
        payment.judge_after_effect("capture", None, Ended::Success, &call, answer)
    };
    assert_eq!(taken(204), Ok(()));
    assert_eq!(
        taken(503).unwrap_err().class(),
        FailureClass::Retryable,
        "the outbox tries again under the same key"
    );
    let none =
        payment.plan_after_effect("capture", None, Ended::Failure, &payload, "k", own(&services)).await;
    assert_eq!(none.unwrap_err().code(), Some("document_changed"));

    let refund = example("refund.yaml");
    let payload =
        json!({ "entity": { "id": "R123" }, "requester": "support", "failure": { "message": "no" } });
    let planned = refund
        .plan_after_effect("refund", Some(&name("support")), Ended::Failure, &payload, "k", own(&services))
        .await;
    let input = json!({ "refund": "R123", "why": { "message": "no" } });
    assert_eq!(planned.unwrap(), PlannedAfterEffect::Workflow { workflow: name("look-at-refund"), input });
}

#[test]
fn a_run_is_given_all_that_expressions_see_unless_the_document_says_otherwise() {
    let given = document(&closing(json!({ "action": { "workflow": "w" } })));
    let admin = name("admin");
    let input = given.plan_workflow_input("close", Some(&admin), &call(json!({ "a": 1 }))).unwrap();
    assert_eq!(
        (&input["input"]["a"], &input["requester"], &input["operation"]["id"]),
        (&json!(1), &json!("support"), &json!("op_1"))
    );
    let given =
        document(&closing(json!({ "action": { "workflow": "w", "input": { "x": "{{ input.a }}" } } })));
    assert_eq!(
        given.plan_workflow_input("close", Some(&admin), &call(json!({ "a": 1 }))).unwrap(),
        json!({ "x": 1 })
    );
    let given = document(&closing(json!({ "action": { "workflow": "w", "input": "{{ input.a }}" } })));
    let failure = given.plan_workflow_input("close", Some(&admin), &call(json!({ "a": 1 }))).unwrap_err();
    assert_eq!(failure.code(), Some("input_mismatch"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_the_checks_stumble(text in "[ -~\n]{0,200}", hole in 0usize..600) {
        let _ = judge(&text);
        let _ = is_entity(text.as_bytes());
        let mut broken = invoice(json!({})).to_string();
        let hole = hole % broken.len();
        broken.replace_range(hole..=hole, &text.chars().take(3).collect::<String>());
        let _ = judge(&broken);
        let _ = is_entity(broken.as_bytes());
    }
}
