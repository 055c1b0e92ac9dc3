//! The person who gives a command, for the audit log.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use hapax::{Actor, Role};

/// Role of the person who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PersonRole {
    /// May make decisions that can be undone, and all others together with a second person.
    Operator,
    /// May make all decisions alone.
    Manager,
}

/// Options for the person and the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct Person {
    /// Your name, for the audit log.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: String,
    /// Your role. On a server the role of the API key counts.
    #[arg(long, value_enum, default_value_t = PersonRole::Operator, requires = "store")]
    role: PersonRole,
    /// Reason, for the audit log: say how you know.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub(crate) reason: String,
}

impl Person {
    pub(crate) fn actor(&self) -> Actor {
        let role = match self.role {
            PersonRole::Operator => Role::Operator,
            PersonRole::Manager => Role::Manager,
        };
        Actor::new(self.by.clone(), role)
    }
}

/// A text that is not blank.
pub(crate) fn not_blank(text: &str) -> Result<String> {
    ensure!(!text.trim().is_empty(), "it is blank");
    Ok(text.trim().to_string())
}
