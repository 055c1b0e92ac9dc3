//! Counts of what a simulation exercised. A simulation that did nothing must not pass.

use hapax_engine::runtime::Stats;

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct SimulationCounts { $($(#[$doc])* pub $name: u64),* }

        impl SimulationCounts {
            pub fn add(&mut self, other: &SimulationCounts) {
                $(self.$name += other.$name;)*
            }

            fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

tally! {
    runs,
    completed,
    failed,
    cancelled,
    effects,
    requests,
    refused,
    answers_lost,
    arrived_late,
    arrived_twice,
    hung,
    crashes,
    retirements,
    freezes,
    stopped,
    partitions,
    clock_jumps,
    // Counters of the engines.
    starts_found_their_run,
    conflicts,
    takeovers,
    replays,
    resumed_in_memory,
    retries,
    fenced_writes,
    stale_writes,
    unknown_resolved,
    self_fenced,
    // Answers that clients received.
    promises_settled,
    settlements_early,
    keys_taken,
    settlements_repeated,
    settlements_refused,
    signals_repeated,
    pauses,
    cancellations,
    reopened,
    repeats_refused,
    repeats_allowed,
    generations,
    waiters_told,
    doubts,
    doubts_resolved,
    delivered,
    // Outcomes that callers of entities, keys and webhooks saw.
    steps_done,
    claims_lost,
    operations_ruled,
    janitor_releases,
    requests_replayed,
    requests_in_one_write,
    leases_given_back,
    request_conflicts,
    events_repeated,
    // Outcomes of families.
    families_cancelled,
    children_over_limits,
    children_of_cancelled,
    runs_forgotten,
}

/// Rare even over many seeds, so a zero means nothing.
const MAY_BE_ABSENT: [&str; 2] = ["repeats_refused", "repeats_allowed"];

impl SimulationCounts {
    pub fn add_stats(&mut self, stats: &Stats) {
        self.starts_found_their_run += stats.duplicates;
        self.conflicts += stats.conflicts;
        self.takeovers += stats.takeovers;
        self.replays += stats.replays;
        self.resumed_in_memory += stats.resumed_in_memory;
        self.retries += stats.retries;
        self.fenced_writes += stats.fenced_writes;
        self.stale_writes += stats.stale_writes;
        self.unknown_resolved += stats.unknown_resolved;
        self.self_fenced += stats.self_fenced;
        self.doubts += stats.doubts;
        self.delivered += stats.delivered;
        self.janitor_releases += stats.janitor_releases;
    }

    /// Invariant 67: everything that never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        let absent = |(name, count): &(&'static str, u64)| *count == 0 && !MAY_BE_ABSENT.contains(name);
        self.all().into_iter().filter(absent).map(|(name, _)| name).collect()
    }
}

impl std::fmt::Display for SimulationCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.all().iter().map(|(name, count)| format!("{name} {count}")).collect();
        f.write_str(&all.join(", "))
    }
}
