//! The figures of the demo, and whether they are as promised.

use serde::Serialize;

use super::messages::Audit;
use super::world::Counts;

#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct EffectCounts {
    pub(super) orders: u64,
    pub(super) starts_fired: u64,
    pub(super) starts_sent_again: u64,
    pub(super) runs_created: u64,
    pub(super) runs_completed: u64,
    pub(super) charges: u64,
    pub(super) charge_calls: u64,
    pub(super) effects: u64,
    pub(super) effect_calls: u64,
    pub(super) retried_under_same_key: u64,
    pub(super) duplicates: u64,
    pub(super) lost: u64,
    pub(super) crashes: u64,
    pub(super) recovered: u64,
    pub(super) violations: Vec<String>,
    pub(super) seconds: f64,
    pub(super) database: Option<String>,
}

impl EffectCounts {
    pub(super) fn count(&mut self, counts: Counts) {
        self.charges = counts.charges;
        self.charge_calls = counts.charge_calls;
        self.effects = counts.effects;
        self.effect_calls = counts.effect_calls;
        self.retried_under_same_key = counts.effect_calls - counts.effects;
        self.duplicates = counts.duplicates;
        self.lost = counts.lost;
    }

    pub(super) fn audit(&mut self, audit: Audit) {
        self.runs_created = audit.runs;
        self.runs_completed = audit.completed;
        self.violations = audit.violations;
    }

    /// Broken promises of the demo.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |found: u64, expected: u64, what: &str| {
            if found != expected {
                faults.push(format!("{found} {what}, not {expected}"));
            }
        };
        expect(self.runs_created, self.orders, "runs were created");
        expect(self.runs_completed, self.orders, "runs were completed");
        expect(self.charges, self.orders, "charges were made");
        expect(self.duplicates, 0, "effects were duplicated");
        expect(self.lost, 0, "orders lack an effect");
        faults.extend(self.violations.iter().cloned());
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_too_many_or_too_few_is_a_fault() {
        let good = EffectCounts {
            orders: 3,
            runs_created: 3,
            runs_completed: 3,
            charges: 3,
            ..EffectCounts::default()
        };
        assert!(good.faults().is_empty());
        let doubled = EffectCounts { charges: 4, duplicates: 1, ..good.clone() };
        assert_eq!(doubled.faults().len(), 2);
        let lost = EffectCounts { charges: 2, lost: 1, ..good };
        assert_eq!(lost.faults().len(), 2);
    }
}
