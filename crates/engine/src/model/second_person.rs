//! Decisions that take two people. Issuer and subject, or the credential, identify a person; names do not.

use super::{
    Actor, JournalEntry, JournalEvent, Resolution, Role, Ruling, RulingError, RunId, StepId, Timestamp,
    check_actor_and_reason,
};

impl Actor {
    /// Returns true if the two may be one person. An identity provider tells people apart; without one, each credential counts as
    /// one person, whatever names it gives. Only where neither came through a server does the name count.
    pub fn is_same_person(&self, other: &Actor) -> bool {
        let verified = |actor: &Actor| {
            let origin = actor.origin.as_ref()?;
            Some((origin.issuer.clone()?, origin.subject.clone()?))
        };
        let name = |actor: &Actor| actor.person().trim().to_lowercase();
        match (verified(self), verified(other)) {
            (Some(one), Some(other)) => one == other,
            (Some(_), None) | (None, Some(_)) => {
                self.credential().is_some() && self.credential() == other.credential()
            }
            (None, None) => match (self.credential(), other.credential()) {
                (Some(one), Some(other)) => one == other,
                (Some(_) | None, None) | (None, Some(_)) => name(self) == name(other),
            },
        }
    }
}

/// A proposed ruling, which a second person may confirm.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedRuling {
    /// Names the proposal.
    pub id: String,
    /// Person who proposed it.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
    /// The ruling.
    pub resolution: Resolution,
    /// The reason.
    pub reason: String,
    /// Version of the doubt that it is about.
    pub seen: u64,
}

impl ProposedRuling {
    /// The proposal in an entry about this step, if it holds one.
    pub fn in_entry(entry: &JournalEntry, run: RunId, step: &StepId) -> Option<Self> {
        let JournalEvent::RulingProposed { resolution, reason, seen, request } = &entry.what else {
            return None;
        };
        if entry.run != run || entry.step.as_ref() != Some(step) {
            return None;
        }
        Some(ProposedRuling {
            id: request.clone(),
            by: entry.by.clone()?,
            at: entry.at,
            resolution: resolution.clone(),
            reason: reason.clone(),
            seen: *seen,
        })
    }
}

/// Decides what a confirmation of a proposal rules. The two must be two people, and one of them a manager if the ruling cannot be
/// taken back. A proposal about the doubt as it was before counts for nothing.
pub fn decide_confirmation(
    proposal: &ProposedRuling,
    seen: u64,
    by: Actor,
    reason: &str,
) -> Result<Ruling, RulingError> {
    check_actor_and_reason(&by, reason)?;
    if proposal.seen != seen {
        return Err(RulingError::NoSuchProposal);
    }
    if proposal.by.is_same_person(&by) {
        return Err(RulingError::SamePerson);
    }
    let has_manager = [&proposal.by, &by].iter().any(|actor| actor.role == Role::Manager);
    if proposal.resolution.is_irreversible() && !has_manager {
        return Err(RulingError::NeedsManager(proposal.resolution.as_str()));
    }
    Ok(Ruling {
        resolution: proposal.resolution.clone(),
        by,
        seconded_by: Some(proposal.by.clone()),
        reason: reason.to_owned(),
    })
}

/// The person who had a run started, if its journal shows one.
pub fn find_starter<'a>(journal: impl IntoIterator<Item = &'a JournalEntry>) -> Option<&'a Actor> {
    journal.into_iter().find_map(|entry| match &entry.what {
        JournalEvent::Commanded { command, .. } if command == START_COMMAND => entry.by.as_ref(),
        _ => None,
    })
}

/// The command of a journal entry that says who had a run started.
pub const START_COMMAND: &str = "start";

#[cfg(test)]
mod tests {
    use super::super::Origin;
    use super::*;

    fn through(credential: &str, name: &str, role: Role) -> Actor {
        let origin = Origin { credential: credential.into(), person: Some(name.into()), ..Origin::default() };
        Actor { origin: Some(origin), ..Actor::new(format!("{name} (desk)"), role) }
    }

    fn verified(subject: &str, name: &str, role: Role) -> Actor {
        let origin = Origin {
            credential: format!("person_{subject}"),
            person: Some(name.into()),
            issuer: Some("https://login".into()),
            subject: Some(subject.into()),
            ..Origin::default()
        };
        Actor { origin: Some(origin), ..Actor::new(name, role) }
    }

    #[test]
    fn two_people_are_told_apart_by_what_vouches_for_them() {
        use Role::Operator;
        let same = |one: Actor, other: Actor| {
            assert_eq!(one.is_same_person(&other), other.is_same_person(&one));
            one.is_same_person(&other)
        };
        assert!(
            same(through("c1", "ada", Operator), through("c1", "grace", Operator)),
            "a shared key is one person"
        );
        assert!(!same(through("c1", "ada", Operator), through("c2", "ada", Operator)));
        assert!(same(verified("u1", "ada", Operator), verified("u1", "grace", Operator)), "she was renamed");
        assert!(!same(verified("u1", "ada", Operator), verified("u2", "ada", Operator)), "namesakes");
        assert!(!same(verified("u1", "ada", Operator), through("c1", "ada", Operator)));
        let local = |name: &str| Actor::new(name, Operator);
        assert!(same(local(" Ada"), local("ada")));
        assert!(!same(local("ada"), local("grace")));
        assert!(same(local("ada"), through("c1", "Ada", Operator)));
    }

    fn proposal(resolution: Resolution, by: Actor) -> ProposedRuling {
        let (id, reason) = ("p1".into(), "the bank has no such transfer".into());
        ProposedRuling { id, by, at: Timestamp::from_millis(0), resolution, reason, seen: 7 }
    }

    #[test]
    fn an_irreversible_ruling_takes_two_people_and_a_manager() {
        use Role::{Manager, Operator};
        let confirm = |proposed_by: Actor, by: Actor| {
            decide_confirmation(&proposal(Resolution::DidNotHappen, proposed_by), 7, by, "so it is")
                .map(|ruling| ruling.by.role)
        };
        let (ada, grace) = (|role| through("c1", "ada", role), |role| through("c2", "grace", role));
        assert_eq!(confirm(ada(Operator), grace(Manager)), Ok(Manager));
        assert_eq!(confirm(ada(Manager), grace(Operator)), Ok(Operator));
        assert_eq!(confirm(ada(Operator), grace(Operator)), Err(RulingError::NeedsManager("did_not_happen")));
        assert_eq!(confirm(ada(Manager), ada(Manager)), Err(RulingError::SamePerson));
        assert_eq!(
            confirm(ada(Operator), through("c1", "grace", Manager)),
            Err(RulingError::SamePerson),
            "the same key"
        );
        let happened = proposal(Resolution::Happened { output: 5.into() }, ada(Operator));
        let ruling = decide_confirmation(&happened, 7, grace(Operator), "I looked as well").unwrap();
        assert_eq!(
            (ruling.by.person(), ruling.seconded_by.unwrap().person().to_owned()),
            ("grace", "ada".to_owned())
        );
        assert_eq!(
            decide_confirmation(&happened, 8, grace(Manager), "late").unwrap_err(),
            RulingError::NoSuchProposal
        );
        assert_eq!(
            decide_confirmation(&happened, 7, grace(Manager), " ").unwrap_err(),
            RulingError::NoReason
        );
    }
}
