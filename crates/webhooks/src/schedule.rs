//! The retry schedule of a delivery: pauses that grow, over days.

use std::time::Duration;

use crate::limits::{DELIVER_WITHIN, MAX_RETRY_AFTER};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Pauses between attempts before jitter, as Standard Webhooks recommends.
pub const SCHEDULE: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(14 * HOUR),
    Duration::from_secs(20 * HOUR),
    Duration::from_secs(24 * HOUR),
];

/// Maximum jitter in either direction, as a fraction of the pause.
const JITTER: f64 = 0.2;

/// The pause after `attempts` failed attempts, or `None` if it is time to give up.
///
/// `age` is the time since the event, `asked` the pause that the receiver requested, and `chance` in `[0, 1)` spreads
/// deliveries that failed together. Steps use full jitter. Here that would make the whole schedule last anywhere from
/// nothing to days, while these pauses are meant to cover an outage of a certain length.
pub fn wait_after(attempts: u32, age: Duration, asked: Option<Duration>, chance: f64) -> Option<Duration> {
    let pause = SCHEDULE.get(usize::try_from(attempts).ok()?.checked_sub(1)?)?;
    let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.5 };
    let pause = pause.mul_f64(1.0 - JITTER + 2.0 * JITTER * chance);
    // A receiver that asks for a shorter pause does not use up its attempts sooner.
    let pause = pause.max(asked.unwrap_or_default().min(MAX_RETRY_AFTER));
    let is_in_time = age.checked_add(pause).is_some_and(|age| age <= DELIVER_WITHIN);
    is_in_time.then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{LONGEST_PAUSE, MAX_DELIVERY_ATTEMPTS};

    /// Number of attempts if all fail, and the time they span.
    fn all_fail(chance: f64, asked: Option<Duration>) -> (u32, Duration) {
        let (mut attempts, mut age) = (1, Duration::ZERO);
        while let Some(pause) = wait_after(attempts, age, asked, chance) {
            assert!(pause <= LONGEST_PAUSE, "{pause:?}");
            (attempts, age) = (attempts + 1, age + pause);
        }
        (attempts, age)
    }

    /// RELIABILITY, lesson 12: a receiver that keeps ids for four days still has the id of every delivery that can be
    /// sent.
    #[test]
    fn a_delivery_is_tried_for_days_and_never_longer_than_ids_are_kept() {
        for chance in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let (attempts, over) = all_fail(chance, None);
            assert_eq!(attempts, MAX_DELIVERY_ATTEMPTS);
            assert!(over >= Duration::from_secs(60 * HOUR), "{over:?}");
            assert!(over <= DELIVER_WITHIN, "{over:?}");
        }
        let (_, over) = all_fail(0.5, Some(Duration::MAX));
        assert!(over <= DELIVER_WITHIN, "{over:?}");
    }

    #[test]
    fn a_receiver_can_ask_for_longer_pauses_and_not_for_shorter_ones() {
        let wait = |asked| wait_after(4, Duration::ZERO, asked, 0.5).unwrap().as_secs();
        assert_eq!(wait(None), 2 * HOUR);
        assert_eq!(wait(Some(Duration::from_secs(1))), 2 * HOUR);
        assert_eq!(wait(Some(Duration::from_secs(3 * HOUR))), 3 * HOUR);
        assert_eq!(wait(Some(Duration::MAX)), 24 * HOUR);
    }

    #[test]
    fn out_of_range_arguments_give_no_pause_or_a_bounded_one() {
        assert_eq!(wait_after(0, Duration::ZERO, None, 0.5), None);
        assert_eq!(wait_after(u32::MAX, Duration::ZERO, None, 0.5), None);
        assert_eq!(wait_after(1, Duration::MAX, None, 0.5), None);
        for chance in [f64::NAN, f64::INFINITY, -1.0, 7.0] {
            let wait = wait_after(1, Duration::ZERO, None, chance).unwrap();
            assert!((4..=6).contains(&wait.as_secs()), "{wait:?}");
        }
    }
}
