//! Rules that the simulation checks the engine against. Each has a name, so it can be checked separately.

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A node with an expired lease sends nothing to a provider, not even a lookup.
    StaleHolderNeverSends,
    /// A claimed effect happens at most once, plus once for each time that a manager allowed a repetition.
    ClaimedOnce,
    /// No compensable effect remains in a failed or cancelled run, unless it is in doubt or people abandoned it. The
    /// ledger shows who abandoned it: a retry of the run drops the record of the step, but not the ruling.
    UndoneOrInDoubt,
    /// Known effects <= effects the provider saw <= known and possible effects. The ledgers of all runs add up to the
    /// metrics.
    LedgerBounds,
    /// An acknowledged request of a person takes effect.
    RequestsTakeEffect,
    /// A person can rule on each remaining doubt.
    DoubtsCanBeRuled,
    /// The action of an operation sends nothing after its claim was reverted.
    StaleActionNeverSends,
    /// A step that moves an entity out of the statuses it applies in happens at most once.
    EntityEffectOnce,
    /// The same as `LedgerBounds`, for the actions of operations.
    EntityEffectsCounted,
    /// A family stays within its limits. Nobody is born into a family that was cancelled, and when it is swept every member was asked to cancel.
    FamiliesKept,
    /// No two attempts under an operation's effect key have the same number. Otherwise they would be counted as one,
    /// and a provider could not tell which is older.
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

    /// The rules to enforce: all, or only the ones in `HAPAX_SIM_RULES`.
    pub fn in_force() -> Vec<Rule> {
        match std::env::var("HAPAX_SIM_RULES") {
            Err(_) => Rule::ALL.to_vec(),
            Ok(names) => Rule::ALL.into_iter().filter(|rule| names.contains(&format!("{rule:?}"))).collect(),
        }
    }
}
