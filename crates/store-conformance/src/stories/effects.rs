//! Actions with an unknown outcome, and the document rules they begin under.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::limits::MAX_ACTION_TRIES;
use hapax_engine::model::{
    CatalogKind, DocumentRef, EntityStep, EntityWorkflow, Irreversible, Name, OperationStatus, Payload,
    ProbeAnswer, Recovery, Resolution, Ruling, Version, WorkspaceId,
};
use hapax_engine::runtime::{EntityHost, Error, LoadEntityWorkflow, StepCall, TransitionOutcome};
use hapax_engine::store::{PutCatalogItem, PutOutcome, StoreResult};
use hapax_engine::{Engine, EngineOptions};
use serde_json::{Value, json};

use super::entity_scene::*;
use crate::must;

fn ruling(resolution: Resolution) -> Ruling {
    Ruling { resolution, by: manager(), seconded_by: None, reason: "asked the bank".into() }
}

fn only(keys: &[String]) -> &str {
    assert!(keys.iter().all(|key| *key == keys[0]), "one effect has one key: {keys:?}");
    &keys[0]
}

/// The caller sees one operation, and the provider one key.
pub(super) async fn an_unknown_outcome_is_tried_again_under_the_same_key(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "approved").await;
    let close = s.engine.transition("invoice", "inv-1", "close").requester("admin");
    let done = s.drive(close.input(&json!({ "how": "unknown twice" }))).await.unwrap();
    let operation = must!(done, TransitionOutcome::Done { operation, .. } => operation);
    assert_eq!((operation.tries, s.times_entered()), (3, 3));
    assert_eq!(only(&s.effect_keys()), operation.effect_key().as_str());
    assert_eq!(s.notes("inv-1").await, ["failed", "failed"]);
    assert_eq!(s.status("inv-1").await, "closed");
}

/// The claim is released in the end, and the next operation continues the same effect.
pub(super) async fn an_unknown_outcome_continues_under_its_key_in_the_next_operation(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "approved").await;
    let close = || s.engine.transition("invoice", "inv-1", "close").requester("admin");
    let failed = s.drive(close().idempotency_key("a").input(&json!({ "how": "unknown" }))).await.unwrap();
    let first = must!(failed, TransitionOutcome::Failed { operation, .. } => operation);
    assert_eq!((first.tries, s.status("inv-1").await.as_str()), (MAX_ACTION_TRIES, "approved"));
    let second = must!(close().idempotency_key("b").await.unwrap(), TransitionOutcome::Done { operation, .. } => operation);
    assert_ne!(second.id, first.id);
    assert!(second.may_repeat);
    assert_eq!(only(&s.effect_keys()), first.effect_key().as_str());
    assert_eq!(s.effect_keys().len() as u32, MAX_ACTION_TRIES + 1);
}

/// A workflow with a `close` step that is not idempotent.
fn careful(s: &EntityScene) -> EntityWorkflow {
    let mut workflow = s.workflow();
    workflow.steps[1].idempotent = Some(all(false));
    workflow
}

/// It runs once, is listed for people, and blocks others until they have ruled.
pub(super) async fn a_step_that_is_not_idempotent_is_held_in_doubt(s: EntityScene) {
    s.open();
    s.register(&s.engine, careful(&s)).await;
    s.invoice("inv-1", "approved").await;
    let close = || s.engine.transition("invoice", "inv-1", "close").requester("admin");
    let doubt = close().idempotency_key("a").input(&json!({ "how": "unknown" })).await.unwrap();
    let operation = must!(doubt, TransitionOutcome::InDoubt { operation } => operation);
    assert_eq!((operation.recovery, s.times_entered()), (Recovery::Hold, 1));
    assert_eq!(
        (s.status("inv-1").await.as_str(), s.notes("inv-1").await),
        ("closing", vec!["doubted".into()])
    );
    assert_eq!(s.engine.stats().doubts, 1);
    let other = close().idempotency_key("b").await.unwrap();
    assert!(matches!(other, TransitionOutcome::ClaimFailed { existing: Some(_) }), "{other:?}");
    s.pass(STALE_AFTER * 3);
    assert_eq!(s.engine.free_stale_claims("billing").await.unwrap(), Default::default());
    let resolved =
        s.engine.resolve_operation(operation.id, 1, ruling(Resolution::DidNotHappen)).await.unwrap();
    assert!(!resolved.leaves_doubt());
    assert!(matches!(close().await.unwrap(), TransitionOutcome::Done { .. }));
    assert_eq!(only(&s.effect_keys()), operation.effect_key().as_str());
}

/// CONTRACT 8: a crash is also an unknown outcome. The next operation, whatever its key, uses the same effect key.
pub(super) async fn the_operation_after_a_crash_has_the_same_effect_key(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let call = s.engine.transition("invoice", "inv-1", "close").requester("admin").idempotency_key("a");
    let call = tokio::spawn(call.into_future());
    s.entering.notified().await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = s.restart().await;
    s.pass(STALE_AFTER + MINUTE);
    while s.status("inv-1").await != "approved" {
        let _ = after.free_stale_claims("billing").await.unwrap();
    }
    s.open();
    let close = after.transition("invoice", "inv-1", "close").requester("admin").idempotency_key("b");
    let second = must!(close.await.unwrap(), TransitionOutcome::Done { operation, .. } => operation);
    assert_eq!((only(&s.effect_keys()), s.effect_keys().len()), (second.effect_key().as_str(), 2));
    let first = s.operations("inv-1").await.remove(1);
    assert!(first.leaves_doubt() && second.may_repeat);
}

/// A ruling `did_not_happen` frees an irreversible step.
pub(super) async fn a_ruling_that_it_did_not_happen_frees_an_irreversible_step(s: EntityScene) {
    let mut workflow = s.workflow();
    workflow.steps[4].idempotent = Some(all(false));
    s.register(&s.engine, workflow).await;
    s.open();
    s.invoice("inv-1", "paid").await;
    let refund = || s.engine.transition("invoice", "inv-1", "refund");
    let doubt = must!(refund().input(&json!({ "how": "unknown" })).await.unwrap(), TransitionOutcome::InDoubt { operation } => operation);
    s.engine.resolve_operation(doubt.id, 1, ruling(Resolution::DidNotHappen)).await.unwrap();
    let view = s.engine.get_entity("invoice", "inv-1", None).await.unwrap();
    let shown = view.allowed.into_iter().find(|action| action.step.as_str() == "refund").unwrap();
    assert_eq!(shown.hindrance, None);
    assert!(matches!(refund().await.unwrap(), TransitionOutcome::Done { .. }));
}

/// The step leads back to its own status, and new keys still do not allow a repetition.
pub(super) async fn once_means_once_also_where_it_leads_back(s: EntityScene) {
    let mut workflow = s.workflow();
    let bonus = |id, key, irreversible| EntityStep {
        action: handler("act"),
        claim: Some(all(claim("refunding", "paid"))),
        irreversible: Some(all(irreversible)),
        ..step(id, key, &["paid"], "paid")
    };
    workflow.steps.push(bonus(60, "pay_bonus", Irreversible::Once));
    workflow.steps.push(bonus(70, "send_card", Irreversible::Each));
    s.register(&s.engine, workflow).await;
    s.open();
    s.invoice("inv-1", "paid").await;
    let take = |step: &str, key: &str| s.engine.transition("invoice", "inv-1", step).idempotency_key(key);
    let first =
        must!(take("pay_bonus", "1").await.unwrap(), TransitionOutcome::Done { operation, .. } => operation);
    let barred = must!(take("pay_bonus", "2").await.unwrap(), TransitionOutcome::OverrideRequired { existing } => existing);
    assert_eq!(barred.id, first.id);
    for key in ["3", "4"] {
        assert!(matches!(
            take("send_card", key).await.unwrap(),
            TransitionOutcome::Done { recorded: false, .. }
        ));
    }
    let again = take("pay_bonus", "5").overridden(manager(), "a second year").await.unwrap();
    let again = must!(again, TransitionOutcome::Done { operation, .. } => operation);
    assert_ne!(again.effect_key(), first.effect_key());
    assert_eq!(s.times_entered(), 4);
}

/// A host whose requests take up to a minute, and that can look up their outcome.
struct Slow {
    answers: Mutex<Vec<ProbeAnswer<Value>>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl EntityHost for Slow {
    fn action_timeout(&self, _: &Name, _: Option<&Name>) -> Duration {
        MINUTE
    }

    fn probe_settle(&self, _: &Name, _: Option<&Name>) -> Option<Duration> {
        Some(MINUTE * 2)
    }

    async fn probe(&self, call: StepCall) -> ProbeAnswer<Value> {
        self.asked.lock().unwrap().push(call.idempotency_key().as_str().to_owned());
        self.answers.lock().unwrap().pop().unwrap_or(ProbeAnswer::Unknown)
    }
}

fn slow(answers: &[ProbeAnswer<Value>]) -> Arc<Slow> {
    let answers = Mutex::new(answers.iter().rev().cloned().collect());
    Arc::new(Slow { answers, asked: Mutex::default() })
}

/// A request that the holder sent at the last moment may take effect until the request timeout.
pub(super) async fn the_janitor_waits_for_requests_in_flight(s: EntityScene) {
    s.engine.register_entity_workflow(s.workflow(), slow(&[])).await.unwrap();
    s.invoice("inv-1", "approved").await;
    let call =
        tokio::spawn(s.engine.transition("invoice", "inv-1", "close").requester("admin").into_future());
    s.entering.notified().await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = s.restart().await;
    s.pass(STALE_AFTER + MINUTE / 2);
    assert_eq!(after.free_stale_claims("billing").await.unwrap().reverted, 0);
    assert_eq!(s.status("inv-1").await, "closing");
    s.pass(MINUTE);
    while s.status("inv-1").await != "approved" {
        let _ = after.free_stale_claims("billing").await.unwrap();
    }
}

/// CONTRACT 6: "did not happen" counts after the settle time and needs two answers. "Happened" settles the doubt with
/// the provider's output.
pub(super) async fn a_probe_settles_a_doubt_when_it_is_old_enough(s: EntityScene) {
    s.open();
    let happened = ProbeAnswer::Happened(json!({ "id": "ch_1" }));
    let host =
        slow(&[ProbeAnswer::DidNotHappen, ProbeAnswer::DidNotHappen, ProbeAnswer::DidNotHappen, happened]);
    s.engine.register_entity_workflow(careful(&s), host.clone()).await.unwrap();
    let asked = || host.asked.lock().unwrap().len();
    for (id, status, questions) in
        [("inv-1", OperationStatus::Reverted, 2), ("inv-2", OperationStatus::Done, 4)]
    {
        s.invoice(id, "approved").await;
        let close = s.engine.transition("invoice", id, "close").requester("admin");
        let doubt = close.input(&json!({ "how": "unknown" })).await.unwrap();
        let doubt = must!(doubt, TransitionOutcome::InDoubt { operation } => operation);
        assert_eq!(s.engine.free_stale_claims("billing").await.unwrap().settled, 0, "too early to count");
        assert_eq!(asked(), questions - 2);
        s.pass(MINUTE * 2);
        s.until(async || s.operations(id).await[0].state.status() == status).await;
        assert_eq!(asked(), questions, "what did not happen is asked twice");
        assert_eq!(host.asked.lock().unwrap().last().unwrap(), doubt.effect_key().as_str());
        let notes = s.notes(id).await;
        assert_eq!(notes, ["doubted", "probed"]);
    }
    assert_eq!((s.status("inv-1").await.as_str(), s.status("inv-2").await.as_str()), ("approved", "closed"));
}

const DOCUMENT: &str = "ewf_invoice";

fn document(version: u64) -> DocumentRef {
    DocumentRef { item: name(DOCUMENT), version: Version::new(version) }
}

async fn put(s: &EntityScene, expected: Option<u64>) {
    let request = PutCatalogItem {
        workspace: WorkspaceId::default(),
        kind: CatalogKind::EntityWorkflow,
        id: name(DOCUMENT),
        name: "invoices".into(),
        body: Payload::of(&json!({})).unwrap(),
        expected: expected.map(Version::new),
        note: None,
    };
    let store = s.candidate.store();
    must!(store.catalog().unwrap().put_item(request).await.unwrap(), PutOutcome::Put(_));
}

/// Loads the current document from the store into an engine.
struct Loader {
    engine: Mutex<Option<Engine>>,
    /// The workflow of each version.
    versions: Vec<EntityWorkflow>,
}

#[async_trait]
impl LoadEntityWorkflow for Loader {
    async fn load(&self, _: &WorkspaceId, kind: &Name) -> StoreResult<()> {
        assert_eq!(kind.as_str(), "invoice");
        let engine = self.engine.lock().unwrap().clone().unwrap();
        let nth = self.versions.len();
        let workflow = self.versions[nth - 1].clone();
        engine.register_entity_document(workflow, slow(&[]), document(nth as u64)).await.unwrap();
        Ok(())
    }
}

/// One node gets a claim added. Twenty callers of another node, which has not seen the change, run one action.
pub(super) async fn a_replaced_document_is_in_force_on_every_node(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    put(&s, None).await;
    let mut open = s.workflow();
    open.steps[1].claim = None;
    let claimed = s.workflow();
    let other = Engine::launch(s.candidate.store(), s.clock.clone(), EngineOptions::default()).unwrap();
    other.module("billing").janitor(EVERY, STALE_AFTER).unwrap();
    s.equip_actions(&other);
    let loader = Arc::new(Loader {
        engine: Mutex::new(Some(other.clone())),
        versions: vec![open.clone(), claimed.clone()],
    });
    other.set_entity_workflow_loader(loader.clone());
    other.register_entity_document(open, slow(&[]), document(1)).await.unwrap();
    put(&s, Some(1)).await;
    let calls: Vec<_> = (0..20)
        .map(|_| tokio::spawn(other.transition("invoice", "inv-1", "close").requester("admin").into_future()))
        .collect();
    s.entering.notified().await;
    s.until(async || calls.iter().filter(|call| call.is_finished()).count() == 19).await;
    s.open();
    let mut done = Vec::new();
    for call in calls {
        match call.await.unwrap().unwrap() {
            TransitionOutcome::Done { operation, .. } => done.push(operation),
            TransitionOutcome::ClaimFailed { existing: Some(_) } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((done.len(), s.times_entered()), (1, 1));
    assert_eq!(done[0].document, Some(Version::new(2)));
    // A node that has never seen the document loads it on the first call.
    let third = Engine::launch(s.candidate.store(), s.clock.clone(), EngineOptions::default()).unwrap();
    let unknown = third.get_entity("invoice", "inv-1", None).await;
    assert!(matches!(unknown, Err(Error::UnknownEntityType(_))), "{unknown:?}");
    *loader.engine.lock().unwrap() = Some(third.clone());
    third.set_entity_workflow_loader(loader.clone());
    assert_eq!(third.get_entity("invoice", "inv-1", None).await.unwrap().entity.status.as_str(), "closed");
    *loader.engine.lock().unwrap() = None;
}

/// The workflow has moved to another module, and no janitor would look after the earlier claims.
pub(super) async fn a_claim_that_is_open_must_be_covered(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let call =
        tokio::spawn(s.engine.transition("invoice", "inv-1", "close").requester("admin").into_future());
    s.entering.notified().await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = Engine::launch(s.candidate.store(), s.clock.clone(), EngineOptions::default()).unwrap();
    let moved = EntityWorkflow { module: name("shipping"), ..s.workflow() };
    s.register(&after, moved).await;
    let refused = after.check_coverage().await.unwrap_err().to_string();
    for module in ["shipping", "billing"] {
        assert!(refused.contains(&format!("module {module}")), "all are named: {refused}");
    }
    after.module("shipping").janitor(EVERY, STALE_AFTER).unwrap();
    let refused = after.check_coverage().await.unwrap_err().to_string();
    assert!(refused.contains("module billing") && !refused.contains("module shipping"), "{refused}");
    after.module("billing").janitor(EVERY, STALE_AFTER).unwrap();
    after.check_coverage().await.unwrap();
    s.pass(STALE_AFTER + MINUTE);
    while s.status("inv-1").await != "approved" {
        let _ = after.free_stale_claims("billing").await.unwrap();
    }
}

/// CONTRACT 8: `idempotency: required`.
pub(super) async fn a_step_may_require_a_key(s: EntityScene) {
    let mut workflow = s.workflow();
    workflow.steps[1].key_required = Some(all(true));
    s.register(&s.engine, workflow).await;
    s.open();
    s.invoice("inv-1", "approved").await;
    let close = || s.engine.transition("invoice", "inv-1", "close").requester("admin");
    let refused = close().await;
    assert!(matches!(refused, Err(Error::StepKeyMissing(_))), "{refused:?}");
    assert_eq!((s.times_entered(), s.operations("inv-1").await.len()), (0, 0));
    assert!(matches!(close().idempotency_key("k").await.unwrap(), TransitionOutcome::Done { .. }));
}
