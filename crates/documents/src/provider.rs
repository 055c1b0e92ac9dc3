//! Hosts of the providers that effects talk to, as the documents name them.

use crate::entity::{EntityDocument, StepAction};
use crate::model::{Condition, Document, ForEach, Parallel, Request, Step, StepKind};

impl Document {
    /// Host of the provider that a step sends its request to, with its port. `None` if the step sends none, or if data
    /// chooses the host. Steps of an item are named `<name>.<index>`.
    pub fn provider_of(&self, step: &str) -> Option<String> {
        let mut name = step;
        loop {
            if let Some(found) = find(&self.steps, name) {
                return host_of(&found.request);
            }
            let (rest, index) = name.rsplit_once('.')?;
            index.parse::<u32>().ok()?;
            name = rest;
        }
    }
}

impl EntityDocument {
    /// Host of the provider that the action of a step sends its request to, with its port. `None` if requesters have
    /// different ones.
    pub fn provider_of(&self, step: &str) -> Option<String> {
        let place = self.workflow.steps.iter().position(|it| it.key.as_str() == step)?;
        let actions = self.details.get(place)?.action.as_ref()?;
        let mut hosts = actions.iter().map(|(_, action)| match action {
            StepAction::Http(action) => host_of(&action.request),
            StepAction::Handler { .. } | StepAction::Workflow(_) => None,
        });
        let first = hosts.next()?;
        hosts.all(|host| host == first).then_some(first)?
    }
}

fn find<'a>(steps: &'a [Step], name: &str) -> Option<&'a crate::model::Http> {
    steps.iter().find_map(|step| match &step.kind {
        StepKind::Http(http) => (step.name == name).then_some(&**http),
        StepKind::Condition(Condition { then, otherwise, .. }) => {
            find(then, name).or_else(|| find(otherwise, name))
        }
        StepKind::Parallel(Parallel { branches }) => branches.iter().find_map(|branch| find(branch, name)),
        StepKind::ForEach(ForEach { steps, .. }) => find(steps, name),
        StepKind::Task(_)
        | StepKind::Wait(_)
        | StepKind::Promise(_)
        | StepKind::Signal(_)
        | StepKind::Approval(_)
        | StepKind::Child(_) => None,
    })
}

fn host_of(request: &Request) -> Option<String> {
    let url = request.url.source().as_str()?;
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let is_fixed = !host.is_empty() && !host.contains("{{");
    is_fixed.then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{DeclaredNames, Format, check, check_entity};

    #[test]
    fn the_provider_of_a_step_is_the_host_of_its_url_wherever_the_step_stands() {
        let http =
            |name: &str, url: &str| json!({ "name": name, "type": "http", "method": "POST", "url": url });
        let data = json!({
            "name": "shop", "type": "http", "method": "GET", "url": "https://{{ input.host }}/x", "hostFromData": true,
        });
        let document = json!({ "name": "order", "version": 1, "steps": [
            http("charge", "https://Payments.example:8443/v1?x=1"),
            { "name": "if", "type": "condition", "if": "input.x == 1", "then": [http("note", "https://note.example")], "else": [http("mail", "https://mail.example")] },
            { "name": "each", "type": "for_each", "items": "{{ input.items }}", "steps": [http("ship", "http://ship.example/{{ item }}")] },
            { "name": "both", "type": "parallel", "branches": [[http("a", "https://a.example/")], [data]] },
            { "name": "echo", "type": "task", "task": "echo" },
        ] });
        let checked = check(&document.to_string(), Format::Json, &DeclaredNames::default()).unwrap();
        let of = |step: &str| checked.document().provider_of(step);
        assert_eq!(of("charge").as_deref(), Some("payments.example:8443"));
        assert_eq!(of("mail").as_deref(), Some("mail.example"));
        assert_eq!(of("ship.17").as_deref(), Some("ship.example"));
        assert_eq!(of("a").as_deref(), Some("a.example"));
        for none in ["shop", "echo", "if", "charge.x", "nobody", ""] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn the_provider_of_an_entity_step_is_that_of_its_action() {
        let document = json!({
            "name": "invoices", "module": "default", "entity": "invoice",
            "status_types": ["a", "b", "c", "d"], "initial": ["a"],
            "steps": [
                { "step_id": 1, "step_key": "close", "status": "a", "successful_state": "d", "claim_state": ["b", "a"],
                  "action": { "http": { "method": "POST", "url": "https://bank.example/close" } } },
                { "step_id": 2, "step_key": "print", "status": "d", "successful_state": "c" },
            ],
        });
        let checked = check_entity(&document.to_string(), Format::Json, &DeclaredNames::default()).unwrap();
        assert_eq!(checked.document().provider_of("close").as_deref(), Some("bank.example"));
        assert_eq!(checked.document().provider_of("print"), None);
        assert_eq!(checked.document().provider_of("nobody"), None);
    }
}
