//! Draws an entity workflow: its statuses and steps.

mod layout;
mod mermaid;
mod svg;

use std::collections::BTreeSet;

use hapax_engine::model::{EntityWorkflow, Name};

pub use mermaid::draw_mermaid;
pub use svg::draw_svg;

/// One arrow.
#[derive(Debug, PartialEq)]
struct Edge<'a> {
    from: &'a Name,
    to: &'a Name,
    kind: EdgeKind,
    label: String,
}

/// Label of an arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeKind {
    /// The step changes the status at once.
    Moves,
    /// The step claims it.
    Claims,
    /// The claim ends in success.
    Completes,
    /// The claim is reverted.
    GoesBack,
}

impl EdgeKind {
    const ALL: [EdgeKind; 4] = [EdgeKind::Moves, EdgeKind::Claims, EdgeKind::Completes, EdgeKind::GoesBack];

    const fn class(self) -> &'static str {
        match self {
            EdgeKind::Moves => "moves",
            EdgeKind::Claims => "claims",
            EdgeKind::Completes => "completes",
            EdgeKind::GoesBack => "goes-back",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            EdgeKind::Moves => "",
            EdgeKind::Claims => ": claim",
            EdgeKind::Completes => ": done",
            EdgeKind::GoesBack => ": failed",
        }
    }
}

/// Initial statuses.
fn initial(workflow: &EntityWorkflow) -> Vec<&Name> {
    match workflow.initial.is_empty() {
        true => workflow.status_types.first().into_iter().collect(),
        false => workflow.initial.iter().collect(),
    }
}

/// Every status, in declaration order.
fn statuses<'a>(workflow: &'a EntityWorkflow, edges: &[Edge<'a>]) -> Vec<&'a Name> {
    let mut seen = BTreeSet::new();
    let ends = edges.iter().flat_map(|edge| [edge.from, edge.to]);
    let all = workflow.status_types.iter().chain(initial(workflow)).chain(ends);
    all.filter(|status| seen.insert(*status)).collect()
}

/// Every arrow, in the order of the steps; requesters with the same arrow share it.
fn edges(workflow: &EntityWorkflow) -> Vec<Edge<'_>> {
    let mut found = Vec::new();
    for step in &workflow.steps {
        let requesters = step.requesters();
        let asking = std::iter::once(None).chain(requesters.iter().copied().map(Some));
        let mut of_step: Vec<(&Name, &Name, EdgeKind, Vec<Option<&Name>>)> = Vec::new();
        let mut seen_by = BTreeSet::new();
        for requester in asking {
            let Some(to) = step.successful_state.find(requester) else { continue };
            let Some(from) = step.status.find(requester) else { continue };
            if step.view(requester).is_none() {
                continue;
            }
            seen_by.insert(requester);
            let claim = step.claim.as_ref().and_then(|claim| claim.find(requester));
            let mut arrows = Vec::new();
            match claim {
                None => arrows.extend(from.iter().map(|from| (from, to, EdgeKind::Moves))),
                Some(claim) => {
                    arrows.extend(from.iter().map(|from| (from, &claim.into, EdgeKind::Claims)));
                    arrows.push((&claim.into, to, EdgeKind::Completes));
                    arrows.push((&claim.into, &claim.revert_to, EdgeKind::GoesBack));
                }
            }
            for (from, to, kind) in arrows {
                let same = |known: &&mut (&Name, &Name, EdgeKind, Vec<Option<&Name>>)| {
                    (known.0, known.1, known.2) == (from, to, kind)
                };
                match of_step.iter_mut().find(same) {
                    Some(known) => known.3.push(requester),
                    None => of_step.push((from, to, kind, vec![requester])),
                }
            }
        }
        for (from, to, kind, by) in of_step {
            let who = match by.len() == seen_by.len() && by.contains(&None) {
                true => String::new(),
                false => {
                    let who: Vec<&str> = by.iter().map(|who| who.map_or("others", Name::as_str)).collect();
                    format!(" ({})", who.join(", "))
                }
            };
            found.push(Edge { from, to, kind, label: format!("{}{who}{}", step.key, kind.verb()) });
        }
    }
    found
}

#[cfg(test)]
mod tests;
