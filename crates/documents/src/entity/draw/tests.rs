//! Drawings show every status and step, and are well-formed.

use hapax_engine::model::EntityWorkflow;

use super::layout::lay_out;
use super::*;
use crate::{DeclaredNames, Format, check_entity};

fn workflow(text: &str) -> EntityWorkflow {
    check_entity(text, Format::Any, &DeclaredNames::default()).unwrap().document().workflow().clone()
}

fn examples() -> Vec<EntityWorkflow> {
    let examples = [
        include_str!("../../../examples/entities/invoice.yaml"),
        include_str!("../../../examples/entities/payment.yaml"),
        include_str!("../../../examples/entities/refund.yaml"),
    ];
    examples.map(workflow).into()
}

/// A separate step for each requester, one step that keeps the status, and names that are hard for Mermaid.
fn odd() -> EntityWorkflow {
    workflow(
        r#"{ "name": "odd", "module": "m", "entity": "thing.v-1", "statusTypes": ["a.b", "end", "c-1", "z"], "steps": [
            { "stepId": 1, "stepKey": "end", "status": { "admin": ["a.b", "z"], "system": "a.b" },
              "claimState": { "admin": ["end", "a.b"] }, "successfulState": { "admin": "c-1", "system": "c-1" } },
            { "stepId": 2, "stepKey": "touch", "status": ["a.b", "c-1"], "successfulState": "c-1" },
            { "stepId": 3, "stepKey": "skip", "status": "a.b", "successfulState": "z" } ] }"#,
    )
}

#[test]
fn arrows_tell_who_claims_and_who_does_not() {
    let workflow = odd();
    let edges = edges(&workflow);
    let told: Vec<String> =
        edges.iter().map(|edge| format!("{} > {}: {}", edge.from, edge.to, edge.label)).collect();
    assert_eq!(
        told,
        [
            "a.b > end: end (admin): claim",
            "z > end: end (admin): claim",
            "end > c-1: end (admin): done",
            "end > a.b: end (admin): failed",
            "a.b > c-1: end (system)",
            "a.b > c-1: touch",
            "c-1 > c-1: touch",
            "a.b > z: skip",
        ]
    );
}

#[test]
fn mermaid_shows_every_status_and_step_and_marks_claim_states() {
    let text = draw_mermaid(&odd());
    assert_eq!(
        text,
        "stateDiagram-v2
    direction LR
    classDef claimed stroke-dasharray: 5 5, font-style: italic
    state \"a.b\" as s0
    state \"end\" as s1
    state \"c-1\" as s2
    state \"z\" as s3
    [*] --> s0
    s0 --> s1 : end (admin) → claim
    s3 --> s1 : end (admin) → claim
    s1 --> s2 : end (admin) → done
    s1 --> s0 : end (admin) → failed
    s0 --> s2 : end (system)
    s0 --> s2 : touch
    s2 --> s2 : touch
    s0 --> s3 : skip
    class s1 claimed
"
    );
    for workflow in examples() {
        let text = draw_mermaid(&workflow);
        for status in &workflow.status_types {
            assert!(text.contains(&format!("\"{status}\"")), "{status}");
        }
        for step in &workflow.steps {
            assert!(text.contains(&format!(": {}", step.key)), "{}", step.key);
        }
    }
}

/// Every tag is closed by its own closing tag, and no text contains XML special characters.
fn check_xml(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        assert!(!text.contains('>'), "{text}");
        let ampersands = text.split('&').skip(1);
        ampersands.for_each(|after| {
            assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|e| after.starts_with(e)))
        });
        let end = rest[begin..].find('>').expect("a tag ends") + begin;
        let tag = &rest[begin + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_picture_is_xml_and_shows_every_status_and_step() {
    for workflow in examples().into_iter().chain([odd()]) {
        let svg = draw_svg(&workflow);
        check_xml(&svg);
        for status in &workflow.status_types {
            assert!(svg.contains(&format!(">{status}</text>")), "{status}");
        }
        for step in &workflow.steps {
            assert!(svg.contains(&format!(">{}", step.key)), "{}", step.key);
        }
        let claimed = svg.matches("class=\"status claimed").count();
        assert_eq!(claimed, workflow.claims().iter().map(|claim| &claim.into).collect::<BTreeSet<_>>().len());
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}

#[test]
fn nothing_in_a_picture_lies_on_something_else() {
    for workflow in examples().into_iter().chain([odd()]) {
        let edges = edges(&workflow);
        let layout = lay_out(&workflow, &edges);
        let boxes: Vec<[f64; 4]> =
            layout.boxes.iter().map(|b| [b.x, b.y, b.x + b.width, b.y + b.height]).collect();
        let label = |line: &super::layout::Line<'_>| {
            let (half, (x, y)) = (line.edge.label.chars().count() as f64 * 3.2, line.label);
            [x - half, y - 8.0, x + half, y + 8.0]
        };
        let all: Vec<[f64; 4]> = boxes.into_iter().chain(layout.lines.iter().map(label)).collect();
        for (n, a) in all.iter().enumerate() {
            assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= layout.width && a[3] <= layout.height, "{a:?}");
            for b in &all[n + 1..] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                assert!(apart, "{}: {a:?} and {b:?}", workflow.name);
            }
        }
    }
}
