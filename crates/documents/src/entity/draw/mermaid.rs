//! The state machine as Mermaid text, which most wikis and forges can draw.

use std::collections::BTreeMap;

use hapax_engine::model::{EntityWorkflow, Name};

use super::{edges, initial, statuses};

/// The state machine of `workflow` as a Mermaid `stateDiagram-v2`. Claim states are dashed.
pub fn draw_mermaid(workflow: &EntityWorkflow) -> String {
    let edges = edges(workflow);
    let statuses = statuses(workflow, &edges);
    // Names may contain dots and dashes, which Mermaid does not accept in an id.
    let ids: BTreeMap<&Name, String> =
        statuses.iter().enumerate().map(|(n, status)| (*status, format!("s{n}"))).collect();
    let id = |status: &Name| ids.get(status).map_or("s0", String::as_str);
    let mut lines = vec![
        "stateDiagram-v2".to_string(),
        "    direction LR".to_string(),
        "    classDef claimed stroke-dasharray: 5 5, font-style: italic".to_string(),
    ];
    lines.extend(statuses.iter().map(|status| format!("    state \"{status}\" as {}", id(status))));
    lines.extend(initial(workflow).into_iter().map(|status| format!("    [*] --> {}", id(status))));
    lines.extend(edges.iter().map(|edge| {
        // A colon begins the label, and some versions end it at a second one.
        let label = edge.label.replace(": ", " → ");
        format!("    {} --> {} : {label}", id(edge.from), id(edge.to))
    }));
    let is_last = |status: &&&Name| !edges.iter().any(|edge| edge.from == **status);
    lines.extend(statuses.iter().filter(is_last).map(|status| format!("    {} --> [*]", id(status))));
    let transient = statuses.iter().filter(|status| workflow.is_transient(status));
    lines.extend(transient.map(|status| format!("    class {} claimed", id(status))));
    lines.join("\n") + "\n"
}
