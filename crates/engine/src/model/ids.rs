//! Ids and counters. Each is its own type, so they cannot be confused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use super::name::{Name, excerpt};
use super::{Invalid, Timestamp};
use crate::limits::MAX_KEY_CHARS;

/// Id of a run. Sorts by creation time, so inserts stay local in every store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u128);

impl RunId {
    /// A fresh id that sorts by `at`: a UUID version 7. A simulation that seeds the thread's random numbers
    /// gets the same ids in the same order again.
    pub fn new(at: Timestamp) -> Self {
        let ms = u64::try_from(at.as_millis()).unwrap_or(0);
        let mut random = [0; 10];
        super::random::fill(&mut random);
        RunId(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().as_u128())
    }

    /// The lowest id of a run created at `at`. A time before 1970 counts as 1970.
    pub fn first_at(at: Timestamp) -> Self {
        let ms = u64::try_from(at.as_millis()).unwrap_or(0).min((1 << 48) - 1);
        RunId(u128::from(ms) << 80)
    }

    /// No run. Journal entries about the workspace as a whole carry this id.
    pub const NONE: RunId = RunId(0);

    /// The id as a number. Stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// An id read from a store.
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

/// Id of an operation: one requested transition of an entity. Sorts by the time of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u128);

impl OperationId {
    /// A fresh id that sorts by `at`.
    pub fn new(at: Timestamp) -> Self {
        OperationId(RunId::new(at).0)
    }

    /// Id of the run that carries out the operation, if its action is a run. Both have the same number, so
    /// starting it again finds the same run.
    pub const fn as_run(self) -> RunId {
        RunId(self.0)
    }

    /// The id as a number. Stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// An id read from a store, or the number of the request that asks for the operation.
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

/// A workspace (tenant). Keys, runs and promises of different workspaces never meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(Name);

impl WorkspaceId {
    /// Checks `text` against the rules of names.
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

/// One engine from start to stop. Never reused, so a restarted process cannot be mistaken for its
/// predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// A fresh id.
    pub fn fresh() -> Self {
        let mut random = [0; 16];
        super::random::fill(&mut random);
        OwnerId(uuid::Builder::from_random_bytes(random).into_uuid().as_u128())
    }

    /// The id as a number. Stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// An id read from a store.
    pub const fn from_u128(value: u128) -> Self {
        OwnerId(value)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "own_{}", Uuid::from_u128(self.0).simple())
    }
}

/// Id of a step in a run: the name, and `#n` from the second use of the name on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(Arc<str>);

impl StepId {
    /// The `ordinal`-th use of `name`, counted from 1.
    pub fn new(name: &Name, ordinal: u32) -> Self {
        match ordinal {
            0 | 1 => StepId(name.as_str().into()),
            n => StepId(format!("{name}#{n}").into()),
        }
    }

    /// Id of the step that undoes this one. User-chosen names cannot contain `~`.
    pub fn undo(&self) -> Self {
        StepId(format!("{}~undo", self.0).into())
    }

    /// An id read from a store.
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

/// Id of a durable promise; `<runId>:<name>` if a run created it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromiseId(Arc<str>);

impl PromiseId {
    /// Promise that the step `step` of `run` waits for. From the second generation on the id contains the
    /// generation.
    pub fn for_step(run: RunId, generation: Generation, step: &StepId) -> Self {
        match generation.get() {
            0 => PromiseId(format!("{run}:{step}").into()),
            n => PromiseId(format!("{run}.{n}:{step}").into()),
        }
    }

    /// Id of a standalone promise: 1 to 255 printable ASCII characters that do not look like the id of a
    /// run's promise.
    pub fn standalone(text: &str) -> Result<Self, Invalid> {
        let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
        let id = PromiseId(text.into());
        if text.is_empty() || text.len() > MAX_KEY_CHARS || !printable || id.run().is_some() {
            let what =
                "promise id (1 to 255 printable ASCII characters, not beginning as a run's promises do)";
            return Err(Invalid::Id { what, given: excerpt(text) });
        }
        Ok(id)
    }

    /// A fresh id for a standalone promise.
    pub fn fresh(at: Timestamp) -> Self {
        let ms = u64::try_from(at.as_millis()).unwrap_or(0);
        let mut random = [0; 10];
        super::random::fill(&mut random);
        PromiseId::from_u128(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().as_u128())
    }

    /// Id of the standalone promise with this number, for example the number of the request that creates it.
    pub fn from_u128(number: u128) -> Self {
        PromiseId(format!("prm_{}", Uuid::from_u128(number).simple()).into())
    }

    /// The run that created the promise, if the id names one.
    pub fn run(&self) -> Option<RunId> {
        self.0.split([':', '.']).next()?.parse().ok()
    }

    /// An id read from a store or sent by a caller. It is not checked.
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
            /// A counter with this value.
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
    /// Number of state changes of a run. Rises by exactly one on each.
    Version(u64)
}
counter! {
    /// Number of leases granted on a run. A writer with an older fence is refused.
    Fence(u64)
}
counter! {
    /// Number of times a run has continued as new. Step ids start again in each generation.
    Generation(u32)
}

/// Identifies one write. A writer whose acknowledgement was lost can recognise its own write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteToken(i64);

impl WriteToken {
    /// A token that no other write carries.
    pub fn fresh() -> Self {
        let mut random = [0; 8];
        super::random::fill(&mut random);
        WriteToken(i64::from_le_bytes(random))
    }

    /// The token as a number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// A token read from a store.
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
