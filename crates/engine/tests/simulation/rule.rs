//! Promises that the simulation holds the engine to, each by a name, so that one can be looked at alone.

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A node whose lease has ended sends nothing to a provider, and asks it nothing.
    StaleHolderNeverSends,
    /// A claimed effect happens at most once, and once more for each time that a manager allowed it to happen again.
    ClaimedOnce,
    /// An effect that can be undone does not stand in a run that failed or was cancelled, unless it is in doubt or people gave it up. That
    /// they did is looked up in the ledger: a retry of the run drops the record of the step, but not their ruling.
    UndoneOrInDoubt,
    /// Known effects <= what the provider saw <= known effects and those that may have happened. What the ledger says of all runs together is
    /// what the metrics say.
    LedgerBounds,
    /// A request of people that was acknowledged takes effect.
    RequestsTakeEffect,
    /// Somebody can decide about each doubt that is left.
    DoubtsCanBeRuled,
    /// The action of an operation sends nothing once its claim was given back.
    StaleActionNeverSends,
    /// A step of an entity that leads away from where it applies happens at most once.
    EntityEffectOnce,
    /// The same as `LedgerBounds`, for the actions of operations.
    EntityEffectsCounted,
    /// A family stays within its limits. Nobody is born into a family that was cancelled, and when it is swept every member was asked to cancel.
    FamiliesKept,
    /// No two tries under the effect key of operations have the same number: they would be counted as one, and a provider could not tell which is older.
    EntityTriesNumbered,
}

impl Rule {
    const ALL: [Rule; 11] = [
        Rule::StaleHolderNeverSends,
        Rule::ClaimedOnce,
        Rule::UndoneOrInDoubt,
        Rule::LedgerBounds,
        Rule::RequestsTakeEffect,
        Rule::DoubtsCanBeRuled,
        Rule::StaleActionNeverSends,
        Rule::EntityEffectOnce,
        Rule::EntityEffectsCounted,
        Rule::EntityTriesNumbered,
        Rule::FamiliesKept,
    ];

    /// The rules to hold the engine to: all, or those that `HAPAX_SIM_RULES` names.
    pub fn in_force() -> Vec<Rule> {
        match std::env::var("HAPAX_SIM_RULES") {
            Err(_) => Rule::ALL.to_vec(),
            Ok(names) => Rule::ALL.into_iter().filter(|rule| names.contains(&format!("{rule:?}"))).collect(),
        }
    }
}
