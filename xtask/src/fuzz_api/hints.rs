//! Dictionaries for schemathesis: words that get a request past the first check.

use serde_json::{Value, json};

use super::seeds::Seeds;

/// How often a path parameter uses one of the words instead of generated text.
const IN_PATHS: f64 = 0.8;

/// Wrong keys are left out: after some of them the server correctly blocks this address for a
/// while.
pub(super) fn of(seeds: &Seeds) -> String {
    let mut text = String::from("[generation]\nwith-security-parameters = false\n\n[dictionaries]\n");
    for (name, values) in dictionaries(seeds) {
        text += &format!("{name}.values = {values}\n");
    }
    text += "\n[parameters]\n";
    for (place, dictionary, probability) in [
        ("body.definitionId", "definitions", 0.7),
        ("body.runs[*].definitionId", "definitions", 0.7),
        ("path.run", "runs", IN_PATHS),
        ("path.key", "keys", 0.5),
        ("path.scope", "scopes", IN_PATHS),
        ("path.step", "steps", 0.5),
        ("path.slug", "workspaces", IN_PATHS),
        ("path.workspace", "workspaces", IN_PATHS),
        ("path.ref", "promise_refs", IN_PATHS),
        // A wrong one counts against the address, like a wrong key.
        ("path.token", "settle_tokens", 1.0),
        ("path.type", "entity_types", IN_PATHS),
        ("path.stepKey", "entity_steps", IN_PATHS),
        ("path.event", "events", IN_PATHS),
        ("query.runId", "runs", 0.5),
        ("query.source", "sources", 0.5),
        ("query.subscription", "subscriptions", 0.5),
        ("query.type", "entity_types", 0.5),
        ("query.idempotencyKey", "keys", 0.5),
        ("body.status", "entity_states", 0.7),
        ("body.attempt", "attempts", 0.7),
    ] {
        text += &format!("\"{place}\" = {}\n", from(dictionary, probability));
    }
    // If several fit a path, only one counts.
    for (path, parameter, dictionary) in [
        ("workflow-runs", "path.id", "runs"),
        ("workflow-definitions", "path.id", "definitions"),
        ("v1/credentials", "path.id", "credentials"),
        ("v1/workspaces", "path.id", "workspaces"),
        ("v1/entities", "path.id", "entities"),
        ("v1/operations", "path.id", "operations"),
        ("^/promises", "path.id", "promises"),
        ("webhook-subscriptions/.id./test$", "path.id", "subscriptions"),
        ("webhook-subscriptions/.id.$", "path.id", "doomed"),
        ("webhook-deliveries", "path.id", "deliveries"),
        ("entity-workflows", "path.name", "entity_workflows"),
        ("webhook-sources", "path.name", "changed_sources"),
        ("v1/webhooks/.workspace./.name.$", "path.name", "sources"),
        ("v1/webhooks/.source.$", "path.source", "source_ids"),
        ("webhook-events", "path.source", "sources"),
    ] {
        text += &format!(
            "\n[[operations]]\ninclude-path-regex = \"{path}\"\nparameters.\"{parameter}\" = {}\n",
            from(dictionary, IN_PATHS)
        );
    }
    text
}

fn from(dictionary: &str, probability: f64) -> String {
    format!("{{ dictionary = \"{dictionary}\", probability = {probability:?} }}")
}

fn dictionaries(seeds: &Seeds) -> Vec<(&'static str, Value)> {
    vec![
        ("workspaces", json!([seeds.workspace])),
        ("definitions", json!([seeds.definition])),
        ("credentials", json!([seeds.credential])),
        ("runs", json!(seeds.runs)),
        ("keys", json!(["order-1", "order-2", "order-9"])),
        ("scopes", json!(["run", "request", "promise", "operation"])),
        ("steps", json!(["look", "breathe", "answer"])),
        ("promises", json!(seeds.promises)),
        ("promise_refs", json!(seeds.promise_refs)),
        ("settle_tokens", json!(seeds.settle_tokens)),
        ("entity_workflows", json!(["tickets"])),
        ("entity_types", json!(["ticket"])),
        ("entity_states", json!(["open", "closed"])),
        ("entity_steps", json!(["close", "reopen"])),
        ("entities", json!(seeds.entities)),
        ("operations", json!(seeds.operations)),
        ("attempts", json!([1])),
        ("source_ids", json!([seeds.letters_path.rsplit('/').next()])),
        ("sources", json!(["letters"])),
        ("changed_sources", json!(["parcels"])),
        ("events", json!(seeds.events)),
        ("subscriptions", json!(seeds.subscriptions)),
        ("doomed", json!(seeds.doomed)),
        ("deliveries", json!(seeds.deliveries)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hints_name_what_is_there_and_no_list_that_is_not() {
        let runs = vec!["run_1".into(), "run_2".into()];
        let seeds = Seeds { runs, definition: "def_1".into(), ..Seeds::default() };
        let text = of(&seeds);
        assert!(text.contains(r#"runs.values = ["run_1","run_2"]"#), "{text}");
        assert!(text.contains(r#"definitions.values = ["def_1"]"#), "{text}");
        assert!(text.contains("with-security-parameters = false"), "{text}");
        for named in text.split("dictionary = \"").skip(1) {
            let name = named.split('"').next().unwrap_or_default();
            assert!(text.contains(&format!("\n{name}.values = ")), "{name}");
        }
    }
}
