//! Identities and counters, each a type of its own so that no two can be mixed up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use super::name::{Name, excerpt};
use super::{Invalid, Timestamp};
use crate::limits::MAX_KEY_CHARS;

/// One run. Ordered by creation time, so that inserts stay local in every store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u128);

impl RunId {
    /// A fresh id that sorts at `at`: a UUID of version 7. Its random bits come from where those of tokens and waits
    /// come from, so that a simulation that seeds them sees the same ids, in the same order, again.
    pub fn new(at: Timestamp) -> Self {
        let ms = u64::try_from(at.as_millis()).unwrap_or(0);
        let mut random = [0; 10];
        super::chance::fill(&mut random);
        RunId(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().as_u128())
    }

    /// No run: what a note of the journal names that is about the workspace as a whole.
    pub const NONE: RunId = RunId(0);

    /// The id as a number; stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The id a store kept.
    pub const fn from_u128(value: u128) -> Self {
        RunId(value)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run_{}", Uuid::from_u128(self.0).simple())
    }
}

impl FromStr for RunId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::Id { what: "run id (run_ and 32 hex digits)", given: excerpt(text) };
        let hex = text.strip_prefix("run_").ok_or_else(refused)?;
        let lower = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex.len() != 32 || !lower {
            return Err(refused());
        }
        u128::from_str_radix(hex, 16).map(RunId).map_err(|_| refused())
    }
}

/// One requested transition of an entity. Ordered by the time it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u128);

impl OperationId {
    /// A fresh id that sorts at `at`.
    pub fn new(at: Timestamp) -> Self {
        OperationId(RunId::new(at).0)
    }

    /// The run that carries it out, if its action is one: it has the same number, so that there is one however often it is started.
    pub const fn as_run(self) -> RunId {
        RunId(self.0)
    }

    /// The id as a number; stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The id a store kept, or that of the request which asks for it.
    pub const fn from_u128(value: u128) -> Self {
        OperationId(value)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op_{}", Uuid::from_u128(self.0).simple())
    }
}

impl FromStr for OperationId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::Id { what: "operation id (op_ and 32 hex digits)", given: excerpt(text) };
        let hex = text.strip_prefix("op_").ok_or_else(refused)?;
        format!("run_{hex}").parse().map(|RunId(number)| OperationId(number)).map_err(|_| refused())
    }
}

/// A tenant: keys, runs and promises of two workspaces never meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(Name);

impl WorkspaceId {
    /// Checks `text` by the rules of names.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        Name::new("workspace", text).map(WorkspaceId)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Default for WorkspaceId {
    fn default() -> Self {
        WorkspaceId::new("default").expect("a valid literal")
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One engine from its start to its end; never reused, so that a restarted process is never taken for its dead self.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// A fresh identity.
    pub fn fresh() -> Self {
        let mut random = [0; 16];
        super::chance::fill(&mut random);
        OwnerId(uuid::Builder::from_random_bytes(random).into_uuid().as_u128())
    }

    /// The id as a number; stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The id a store kept.
    pub const fn from_u128(value: u128) -> Self {
        OwnerId(value)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "own_{}", Uuid::from_u128(self.0).simple())
    }
}

/// One durable unit of a run: the step's name, and `#n` from the second use of a name on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(Arc<str>);

impl StepId {
    /// The `ordinal`-th use (counted from 1) of `name`.
    pub fn new(name: &Name, ordinal: u32) -> Self {
        match ordinal {
            0 | 1 => StepId(name.as_str().into()),
            n => StepId(format!("{name}#{n}").into()),
        }
    }

    /// The step that undoes this one; `~` cannot occur in a user's name.
    pub fn undo(&self) -> Self {
        StepId(format!("{}~undo", self.0).into())
    }

    /// The id a store kept.
    pub fn from_stored(text: &str) -> Self {
        StepId(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A durable promise; `<runId>:<name>` when a run made it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromiseId(Arc<str>);

impl PromiseId {
    /// The promise that the wait `step` of `run` opens; a later generation says which.
    pub fn of_run(run: RunId, generation: Generation, step: &StepId) -> Self {
        match generation.get() {
            0 => PromiseId(format!("{run}:{step}").into()),
            n => PromiseId(format!("{run}.{n}:{step}").into()),
        }
    }

    /// The id of a promise that stands alone: 1 to 255 printable ASCII characters, and none that a run's promise could have.
    pub fn alone(text: &str) -> Result<Self, Invalid> {
        let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
        let id = PromiseId(text.into());
        if text.is_empty() || text.len() > MAX_KEY_CHARS || !printable || id.run().is_some() {
            let what =
                "promise id (1 to 255 printable ASCII characters, not beginning as a run's promises do)";
            return Err(Invalid::Id { what, given: excerpt(text) });
        }
        Ok(id)
    }

    /// A fresh id for a promise that stands alone.
    pub fn fresh(at: Timestamp) -> Self {
        let ms = u64::try_from(at.as_millis()).unwrap_or(0);
        let mut random = [0; 10];
        super::chance::fill(&mut random);
        PromiseId::from_u128(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().as_u128())
    }

    /// The id of the promise that stands alone and has this number, such as that of the request which makes it.
    pub fn from_u128(number: u128) -> Self {
        PromiseId(format!("prm_{}", Uuid::from_u128(number).simple()).into())
    }

    /// The run that made it, as its form tells.
    pub fn run(&self) -> Option<RunId> {
        self.0.split([':', '.']).next()?.parse().ok()
    }

    /// The id a store kept or a caller sent.
    pub fn from_stored(text: &str) -> Self {
        PromiseId(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PromiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name($int);

        impl $name {
            /// The counter with this value.
            pub const fn new(value: $int) -> Self {
                $name(value)
            }

            /// The value.
            pub const fn get(self) -> $int {
                self.0
            }

            /// The next value.
            #[must_use]
            pub const fn next(self) -> Self {
                $name(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// How many state changes a run has seen; rises by exactly one on each.
    Version(u64)
}
counter! {
    /// How many times a run's lease was granted; a writer with an older one is refused.
    Fence(u64)
}
counter! {
    /// How many times a run has continued as new; step ids begin afresh in each.
    Generation(u32)
}

/// Marks one write, so that a writer whose acknowledgement was lost knows its own write again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteToken(i64);

impl WriteToken {
    /// A token no other write carries.
    pub fn fresh() -> Self {
        let mut random = [0; 8];
        super::chance::fill(&mut random);
        WriteToken(i64::from_le_bytes(random))
    }

    /// The token as a number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The token a store kept.
    pub const fn from_stored(value: i64) -> Self {
        WriteToken(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_reads_back_and_sorts_by_time() {
        let early = RunId::new(Timestamp::from_millis(1_000));
        let late = RunId::new(Timestamp::from_millis(2_000));
        assert!(early < late);
        assert_eq!(late.to_string().parse::<RunId>().unwrap(), late);
        assert!(late.to_string() > early.to_string());
    }

    #[test]
    fn what_is_not_a_run_id_is_refused() {
        let upper = RunId::new(Timestamp::from_millis(1)).to_string().to_uppercase();
        for bad in ["", "run_", "run_123", &upper, "run_٠١٢٣٤٥٦٧٨٩abcdefabcdefabcdefab", "def_0"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn repeated_names_get_an_ordinal() {
        let name = Name::new("step", "charge").unwrap();
        assert_eq!(StepId::new(&name, 1).as_str(), "charge");
        assert_eq!(StepId::new(&name, 2).as_str(), "charge#2");
        assert_eq!(StepId::new(&name, 2).undo().as_str(), "charge#2~undo");
    }
}
