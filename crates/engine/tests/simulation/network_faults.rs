//! Fault injection for requests: kinds and rates, drawn from the seed.

use std::time::Duration;

use fastrand::Rng;

/// Rate of each fault, per ten thousand requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    refuse: u32,
    lose_request: u32,
    lose_answer: u32,
    arrive_late: u32,
    arrive_twice: u32,
    echo: u32,
    hang: u32,
    slow: u32,
    longest_delay: Duration,
}

/// Fate of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// It takes effect and is answered.
    Pass,
    /// It fails, nothing is written, and the caller gets the error.
    Refuse,
    /// It never arrives, and the caller does not learn whether it did.
    LoseRequest,
    /// It takes effect, and the caller gets no confirmation.
    LoseAnswer,
    /// The caller gets an unknown outcome at once; the request takes effect later.
    ArriveLate(Duration),
    /// It arrives twice in a row; the caller gets the second answer.
    ArriveTwice,
    /// It is answered, and arrives a second time later.
    Echo(Duration),
    /// It is never answered, whether or not it takes effect.
    Hang { takes_effect: bool },
}

/// The fate of a request and its time in flight.
#[derive(Debug, Clone, Copy)]
pub struct RequestFate {
    pub fate: RequestFault,
    pub out: Duration,
    pub back: Duration,
}

impl FaultRates {
    /// Draws rates for one seed: each fault is rare, common or absent.
    pub fn draw(dice: &mut Rng, lease_for: Duration) -> Self {
        let mut rate = |most: u32| match dice.u32(0..4) {
            0 => 0,
            1 => most / 4,
            2 => most / 2,
            _ => most,
        };
        let mut weather = FaultRates {
            refuse: rate(1_000),
            lose_request: rate(300),
            lose_answer: rate(1_000),
            arrive_late: rate(200),
            arrive_twice: rate(500),
            echo: rate(500),
            hang: rate(8),
            slow: rate(2_000),
            longest_delay: Duration::ZERO,
        };
        weather.longest_delay = match dice.u32(0..3) {
            0 => Duration::from_millis(20),
            1 => lease_for / 4,
            _ => lease_for,
        };
        weather
    }

    /// No fault at all.
    pub fn calm() -> Self {
        FaultRates::default()
    }

    /// Draws the fate of a request. `may_echo` is false for requests that must not be repeated behind the caller's
    /// back.
    pub fn journey(&self, dice: &mut Rng, writes: bool, may_echo: bool) -> RequestFate {
        let slow = dice.u32(0..10_000) < self.slow;
        let mut delay = || match slow {
            true => Duration::from_millis(dice.u64(0..=self.longest_delay.as_millis() as u64)),
            false => Duration::ZERO,
        };
        let (out, back, later) = (delay(), delay(), delay() + Duration::from_millis(1));
        let mut left = dice.u32(0..10_000);
        let mut falls = |rate: u32| match left.checked_sub(rate) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        let fate = if falls(self.refuse) {
            RequestFault::Refuse
        } else if falls(self.hang) {
            RequestFault::Hang { takes_effect: dice.bool() }
        } else if !writes {
            RequestFault::Pass
        } else if falls(self.lose_request) {
            RequestFault::LoseRequest
        } else if falls(self.lose_answer) {
            RequestFault::LoseAnswer
        } else if falls(self.arrive_late) {
            RequestFault::ArriveLate(later)
        } else if falls(self.arrive_twice) {
            RequestFault::ArriveTwice
        } else if may_echo && falls(self.echo) {
            RequestFault::Echo(later)
        } else {
            RequestFault::Pass
        };
        RequestFate { fate, out, back }
    }
}
