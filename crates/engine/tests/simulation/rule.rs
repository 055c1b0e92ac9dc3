//! Promises that the simulation holds the engine to, each by a name, so that one can be looked at alone.

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A node whose lease has ended sends nothing to a provider.
    StaleHolderNeverSends,
    /// A claimed effect happens at most once.
    ClaimedOnce,
    /// An effect that can be undone does not stand in a run that failed or was cancelled, unless it is in doubt.
    UndoneOrInDoubt,
    /// Known effects <= what the provider saw <= known effects and those that may have happened.
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
}

impl Rule {
    /// The rules that the engine keeps today.
    const IN_FORCE: [Rule; 7] = [
        Rule::StaleHolderNeverSends,
        Rule::LedgerBounds,
        Rule::RequestsTakeEffect,
        Rule::DoubtsCanBeRuled,
        Rule::StaleActionNeverSends,
        Rule::EntityEffectOnce,
        Rule::EntityEffectsCounted,
    ];

    const ALL: [Rule; 9] = [
        Rule::StaleHolderNeverSends,
        Rule::ClaimedOnce,
        Rule::UndoneOrInDoubt,
        Rule::LedgerBounds,
        Rule::RequestsTakeEffect,
        Rule::DoubtsCanBeRuled,
        Rule::StaleActionNeverSends,
        Rule::EntityEffectOnce,
        Rule::EntityEffectsCounted,
    ];

    /// The rules to hold the engine to: those in force, or those that `HAPAX_SIM_RULES` names.
    pub fn in_force() -> Vec<Rule> {
        match std::env::var("HAPAX_SIM_RULES") {
            Err(_) => Rule::IN_FORCE.to_vec(),
            Ok(names) => Rule::ALL.into_iter().filter(|rule| names.contains(&format!("{rule:?}"))).collect(),
        }
    }
}
