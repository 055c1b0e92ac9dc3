//! A clause: its name, its rule, and the code that checks it.

use std::future::Future;
use std::pin::Pin;

use crate::calls::Bench;
use crate::clauses;
use crate::config::Profile;

/// One rule with the code that checks it.
pub(crate) struct Clause {
    pub(crate) info: ClauseInfo,
    pub(crate) look: for<'a> fn(&'a Bench) -> CheckFuture<'a>,
}

/// Description of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClauseInfo {
    /// Its stable name.
    pub id: &'static str,
    /// The subject of the clause.
    pub title: &'static str,
    /// The rule.
    pub says: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// True if the profile `ietf` includes it.
    pub is_ietf: bool,
}

/// A check of a clause, in progress.
pub(crate) type CheckFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;

/// Reason why a check ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed { expected: String, saw: String },
    Skipped { why: String },
}

/// Ends the check unless the expectation holds.
pub(crate) fn expect(holds: bool, expected: &str, saw: impl Into<String>) -> Result<(), Stop> {
    match holds {
        true => Ok(()),
        false => Err(Stop::Failed { expected: expected.to_owned(), saw: saw.into() }),
    }
}

/// Config that a clause needs, or the reason to skip it.
pub(crate) fn need<'a, T>(given: &'a Option<T>, name: &str) -> Result<&'a T, Stop> {
    given.as_ref().ok_or_else(|| Stop::Skipped { why: format!("the config gives no `{name}`") })
}

/// Writes the table of clauses: one entry per clause. Each check is an async function of a bench.
macro_rules! table {
    ($($profile:ident $id:ident { $title:literal, $says:literal, $source:literal } $look:path;)*) => {
        &[$($crate::clause::Clause {
            info: $crate::clause::ClauseInfo {
                id: stringify!($id),
                title: $title,
                says: $says,
                source: $source,
                is_ietf: $crate::clause::table!(@ $profile),
            },
            look: |bench| Box::pin($look(bench)),
        }),*]
    };
    (@ ietf) => { true };
    (@ hapax) => { false };
}
pub(crate) use table;

/// The clauses of a profile, in the order of the contract.
pub(crate) fn of(profile: Profile) -> impl Iterator<Item = &'static Clause> {
    clauses::ALL.iter().filter(move |clause| match profile {
        Profile::Hapax => true,
        Profile::Ietf => clause.info.is_ietf,
    })
}

/// All clauses.
pub fn list_clauses() -> Vec<ClauseInfo> {
    clauses::ALL.iter().map(|clause| clause.info).collect()
}
