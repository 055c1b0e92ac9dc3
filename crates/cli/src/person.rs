//! Who gives a command, as the audit log is told.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use hapax::{Actor, Role};

/// In which role somebody decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rank {
    /// May decide what can be taken back, and anything together with a second person.
    Operator,
    /// May decide alone.
    Manager,
}

/// Who, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Person {
    /// Who gives this command, for the audit log.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: String,
    /// In which role; on a server the API key says which.
    #[arg(long, value_enum, default_value_t = Rank::Operator, requires = "store")]
    role: Rank,
    /// Why, for the audit log: say how you know.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub(crate) reason: String,
}

impl Person {
    pub(crate) fn actor(&self) -> Actor {
        let role = match self.role {
            Rank::Operator => Role::Operator,
            Rank::Manager => Role::Manager,
        };
        Actor::new(self.by.clone(), role)
    }
}

/// A text that says something.
pub(crate) fn not_blank(text: &str) -> Result<String> {
    ensure!(!text.trim().is_empty(), "it is blank");
    Ok(text.trim().to_string())
}
