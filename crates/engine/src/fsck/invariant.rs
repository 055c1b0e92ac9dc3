//! Numbers of the invariants that can be checked on data alone. They follow the reliability document; further
//! invariants continue its numbering.

/// All rows of one transition commit together.
pub(super) const COMMITTED_TOGETHER: u8 = 6;
/// Two runs never share a live key, and two open runs never share a subject.
pub(super) const ONE_RUN_PER_KEY: u8 = 7;
/// A key lives from the start of its run to its end, plus the retention.
pub(super) const KEY_OUTLIVES_RUN: u8 = 8;
/// A key stands for one fingerprint.
pub(super) const KEY_HAS_FINGERPRINT: u8 = 10;
/// The same key in two workspaces is two keys.
pub(super) const KEY_IN_WORKSPACE: u8 = 14;
/// A fence rises with each grant, and only then.
pub(super) const FENCE_RISES: u8 = 17;
/// Nothing is written under an older fence or without a lease.
pub(super) const WRITES_ARE_FENCED: u8 = 18;
/// One lease at a time.
pub(super) const ONE_LEASE: u8 = 19;
/// States follow the declared graph.
pub(super) const DECLARED_GRAPH: u8 = 25;
/// Versions have no gaps and no repeats.
pub(super) const VERSIONS_COUNT: u8 = 26;
/// A run is closed exactly if it has one ending and nothing pending.
pub(super) const ONE_ENDING: u8 = 27;
/// Every open run has something that will wake it.
pub(super) const NOT_STRANDED: u8 = 28;
/// A step has one recorded outcome.
pub(super) const ONE_OUTCOME: u8 = 31;
/// Leases lost in a row are limited.
pub(super) const BOUNDED_STALLS: u8 = 35;
/// A promise has one id, one run and one key.
pub(super) const ONE_PROMISE: u8 = 39;
/// A settlement and the wake-up of its waiter commit together.
pub(super) const NO_LOST_WAKE_UP: u8 = 41;
/// Signals keep their order and their sequence numbers.
pub(super) const SIGNALS_IN_ORDER: u8 = 44;
/// The end of a parent reaches every open child.
pub(super) const CHILDREN_ARE_TOLD: u8 = 46;
/// An outbox message exists exactly if its step does.
pub(super) const LEFT_BY_ITS_STEP: u8 = 50;
/// At most one operation holds an entity.
pub(super) const ONE_HOLDER: u8 = 68;
/// A received webhook event is processed.
pub(super) const HOOKS_ARE_PROCESSED: u8 = 69;
