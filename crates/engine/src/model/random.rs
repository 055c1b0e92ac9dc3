//! Random bits for ids, tokens and jitter. Seeded by the operating system, or by a test that must be
//! repeatable.

use std::cell::Cell;

use uuid::Uuid;

thread_local! {
    static SEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Makes all further ids, tokens and jitter of this thread follow from `seed`. For simulations that replay
/// exactly.
pub fn seed_thread_rng(seed: u64) {
    SEEDED.set(true);
    fastrand::seed(seed);
}

/// Fills `bytes`. The generator seeds itself from the clock, and two machines must never create the same id,
/// so the seed of each thread is first replaced by one from the operating system.
pub(super) fn fill(bytes: &mut [u8]) {
    if !SEEDED.replace(true) {
        fastrand::seed(Uuid::new_v4().as_u64_pair().1 ^ Uuid::new_v4().as_u64_pair().0.rotate_left(32));
    }
    fastrand::fill(bytes);
}
