//! Where ids and tokens get their random bits: seeded by the operating system, or by a test that wants them again.

use std::cell::Cell;

use uuid::Uuid;

thread_local! {
    static SEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Makes all further ids, tokens and waits of this thread follow from `seed`, for simulations that replay exactly.
pub fn seed_chance(seed: u64) {
    SEEDED.set(true);
    fastrand::seed(seed);
}

/// Fills `bytes`. The generator's own seed is guessed from the clock, and two machines must never make the same id:
/// so each thread's is replaced by one from the operating system first.
pub(super) fn fill(bytes: &mut [u8]) {
    if !SEEDED.replace(true) {
        fastrand::seed(Uuid::new_v4().as_u64_pair().1 ^ Uuid::new_v4().as_u64_pair().0.rotate_left(32));
    }
    fastrand::fill(bytes);
}
