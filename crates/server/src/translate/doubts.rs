//! Doubts, and what people decide about them.

use hapax_api as api;
use hapax_engine::model::{Actor, Resolution, Role, Ruling};
use hapax_engine::runtime::Doubt;

use super::failure_to_api;

/// One effect in doubt, of a run of `workflow`.
pub(crate) fn doubt_to_api(doubt: &Doubt, workflow: String, takes_two_people: bool) -> api::Doubt {
    api::Doubt {
        run_id: doubt.run.to_string(),
        step_id: doubt.step.to_string(),
        effect_key: doubt.key.to_string(),
        version: doubt.version.get(),
        workflow,
        since: doubt.since.to_string(),
        failure: failure_to_api(&doubt.failure),
        attempts: doubt.attempts,
        resolutions: vec![
            api::Resolution::Happened,
            api::Resolution::DidNotHappen,
            api::Resolution::Compensate,
            api::Resolution::Abandon,
        ],
        takes_two_people,
    }
}

/// The decision in the request; `None` if it lacks a required output, or if the output is not JSON.
pub(crate) fn ruling(sent: &api::ResolveDoubt, by: Actor) -> Option<Ruling> {
    let output = || serde_json::from_str(sent.output.as_ref()?.text()).ok();
    let resolution = match sent.resolution {
        api::Resolution::Happened => Resolution::Happened { output: output()? },
        api::Resolution::DidNotHappen => Resolution::DidNotHappen,
        api::Resolution::Compensate => Resolution::Compensate { output: output()? },
        api::Resolution::Abandon => Resolution::Abandon,
    };
    // A second name in the request proves nothing; only the role of the credential counts.
    Some(Ruling { resolution, by, seconded_by: None, reason: sent.reason.clone() })
}

/// The decision in one word.
pub(crate) fn resolution_to_api(resolution: &Resolution) -> api::Resolution {
    match resolution {
        Resolution::Happened { .. } => api::Resolution::Happened,
        Resolution::DidNotHappen => api::Resolution::DidNotHappen,
        Resolution::Compensate { .. } => api::Resolution::Compensate,
        Resolution::Abandon => api::Resolution::Abandon,
    }
}

/// A person.
pub(crate) fn actor_to_api(actor: &Actor) -> api::Actor {
    let rank = match actor.role {
        Role::Operator => api::Role::Operator,
        Role::Manager => api::Role::Manager,
    };
    let origin = actor.origin.as_ref();
    // The engine knows two ranks; the origin holds the credential's role.
    let role = origin.and_then(|origin| api::Role::ALL.into_iter().find(|role| role.as_str() == origin.role));
    api::Actor {
        name: actor.name.clone(),
        role: role.unwrap_or(rank),
        credential_id: origin.map(|origin| origin.credential.clone()),
        person: origin.and_then(|origin| origin.person.clone()),
        issuer: origin.and_then(|origin| origin.issuer.clone()),
        subject: origin.and_then(|origin| origin.subject.clone()),
        address: origin.and_then(|origin| origin.address.clone()),
        trace_id: origin.and_then(|origin| origin.trace_id.clone()),
    }
}
