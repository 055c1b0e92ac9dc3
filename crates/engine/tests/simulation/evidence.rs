//! Checks after the end: compares the records, the ledger and the metrics with what the provider saw.

use std::collections::BTreeMap;

use std::time::Duration;

use hapax_engine::model::{
    Actor, DoubtRef, JournalEvent, LedgerEntry, LedgerRuling, Resolution, Role, Ruling, RunId, RunResult,
    RunStatus, StepRecord, StepState, StepStatus, Version, WorkspaceId,
};
use hapax_engine::store::{RunLog, RunView, Store};
use hapax_engine::{Engine, Error};

use tokio::time::sleep;

use super::fleet::Fleet;
use super::provider::Account;
use super::rule::Rule;
use super::watch::{at_once, every_run};
use super::world::World;

/// Checks every run of the world.
pub async fn check_evidence(world: &World, fleet: &Fleet) -> Result<(), String> {
    let Some(member) = fleet.any() else { return Err("no node is left to ask".into()) };
    let mut accounts: BTreeMap<_, Vec<Account>> = BTreeMap::new();
    for account in world.provider.accounts() {
        accounts.entry((account.run, account.generation)).or_default().push(account);
    }
    for view in every_run(&world.store) {
        let run = view.head.id();
        let log =
            at_once(world.store.find_log(&WorkspaceId::default(), run)).ok_or("a listed run is gone")?;
        let place = (Some(run), view.head.generation);
        let accounts = accounts.remove(&place).unwrap_or_default();
        let ledger = build_ledger(&member.engine, run).await?;
        check_ledger(world, &accounts, &ledger);
        check_undone(world, &view, &log, &accounts, &ledger);
        check_retries(world, &log);
        check_doubts(world, &member.engine, &log).await;
    }
    check_counts(world, &member.engine).await
}

/// Checks that an acknowledged retry took effect.
fn check_retries(world: &World, log: &RunLog) {
    let run = log.head.id();
    let events = at_once(world.store.list_events(&log.head.facts.workspace, run, Version::default()));
    if let Some(lost) = world.with_requests(|requests| requests.lost_retry(log, &events)) {
        world.expect(Rule::RequestsTakeEffect, || format!("{run}: {lost}"));
    }
}

/// Checks that the ledgers of all runs add up to the metrics, which the store counts.
async fn check_counts(world: &World, engine: &Engine) -> Result<(), String> {
    let (ledger, metrics) = loop {
        match (engine.count_effects().await, engine.count_repeats().await) {
            (Ok(ledger), Ok(metrics)) => break (ledger, metrics),
            (Err(Error::Store(error)), _) | (_, Err(Error::Store(error))) if error.is_retryable() => {
                sleep(Duration::from_millis(200)).await;
            }
            (Err(error), _) | (_, Err(error)) => return Err(format!("the counts cannot be read: {error}")),
        }
    };
    for (class, counted) in metrics {
        let walked = ledger.get(&class).copied().unwrap_or_default();
        let told = (walked.happened_twice, walked.may_have_happened_twice);
        if told != (counted.happened_twice, counted.may_have_happened_twice) {
            world.expect(Rule::LedgerBounds, || {
                format!("the ledger counts {told:?} repeats of class {class}, the metrics {counted:?}")
            });
        }
    }
    Ok(())
}

/// The ledger of a run. Asks again if the node is still cut off.
async fn build_ledger(engine: &Engine, run: RunId) -> Result<Vec<LedgerEntry>, String> {
    loop {
        match engine.ledger(run).await {
            Ok(ledger) => return Ok(ledger),
            Err(Error::Store(error)) if error.is_retryable() => sleep(Duration::from_millis(200)).await,
            Err(error) => return Err(format!("the ledger of {run}: {error}")),
        }
    }
}

/// Checks, for each key, that known effects <= effects the provider saw <= known and possible effects.
fn check_ledger(world: &World, accounts: &[Account], ledger: &[LedgerEntry]) {
    for account in accounts {
        let entry = ledger.iter().find(|entry| entry.key == account.key);
        let known = entry.map_or(0, |entry| entry.happened);
        let open = entry.map_or(0, |entry| entry.may_have_happened);
        if account.times < known || account.times > known + open {
            world.expect(Rule::LedgerBounds, || {
                format!(
                    "{} happened {} times; the ledger knows of {known}, and of {open} that may have: {entry:?}",
                    account.key, account.times
                )
            });
        }
    }
}

/// Checks that no compensable effect remains in a failed or cancelled run, unless a person still has to look at it.
fn check_undone(world: &World, view: &RunView, log: &RunLog, accounts: &[Account], ledger: &[LedgerEntry]) {
    if !matches!(view.head.status(), RunStatus::Failed | RunStatus::Cancelled) {
        return;
    }
    for account in accounts.iter().filter(|account| account.can_be_undone && account.times > 0) {
        let undo = format!("{}~undo", account.key);
        let record = log.steps.iter().find(|step| account.key.ends_with(&format!(":{}", step.id)));
        let is_undone = accounts.iter().any(|other| other.key == undo && other.times > 0);
        let is_seen = match record {
            Some(record) => is_seen_by_people(record),
            None => ledger.iter().any(|entry| entry.key == account.key && is_given_up(entry)),
        };
        if !is_undone && !is_seen && !is_told(view) {
            world.expect(Rule::UndoneOrInDoubt, || {
                let (status, state) = (view.head.status().as_str(), record.map(|record| &record.state));
                format!("{} stands in a run that is {status}; its record: {state:?}", account.key)
            });
        }
    }
}

/// Returns true if the step is in doubt or people abandoned it.
fn is_seen_by_people(step: &StepRecord) -> bool {
    match &step.state {
        StepState::InDoubt { .. } => true,
        StepState::Failed { failure, .. } => failure.code() == Some("abandoned"),
        _ => false,
    }
}

/// Returns true if people abandoned the step before a retry dropped its record. The code has not been entered since,
/// because that would have made a new record.
fn is_given_up(entry: &LedgerEntry) -> bool {
    let gives_up = |ruling: &LedgerRuling| {
        matches!(&ruling.what, JournalEvent::Resolved { resolution: Resolution::Abandon, .. })
    };
    entry.rulings.iter().any(gives_up)
}

/// Returns true if the run reports that undoing failed.
fn is_told(view: &RunView) -> bool {
    let Some(RunResult::Failed(failure) | RunResult::Cancelled(failure)) = &view.result else { return false };
    failure.code() == Some("undo_failed")
}

/// Checks that every remaining doubt can still be resolved by a ruling.
async fn check_doubts(world: &World, engine: &Engine, log: &RunLog) {
    for step in log.steps.iter().filter(|step| step.state.status() == StepStatus::InDoubt) {
        let seen = DoubtRef { run: log.head.id(), step: step.id.clone(), seen: step.changed_version };
        let by = Actor::new("ada", Role::Manager);
        let ruling =
            Ruling { resolution: Resolution::Abandon, by, seconded_by: None, reason: "the end".into() };
        if let Err(error) = engine.resolve_doubt(&seen, ruling).await
            && !matches!(error, Error::DoubtResolved { .. } | Error::Store(_))
        {
            world.expect(Rule::DoubtsCanBeRuled, || format!("{seen:?} cannot be ruled on: {error}"));
        }
    }
}
