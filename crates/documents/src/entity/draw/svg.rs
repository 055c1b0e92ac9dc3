//! The state machine as a self-contained SVG picture, without scripts, fonts or libraries.

use std::fmt::Write;

use hapax_engine::model::EntityWorkflow;

use super::layout::{HEAD, MARGIN, lay_out};
use super::{EdgeKind, edges, initial};

/// Readable on light and dark pages: the picture has its own background, and follows the reader's preference.
const STYLE: &str = "\
text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#1f2937}\
.paper{fill:#ffffff}.title{font-size:15px;font-weight:600}.key{font-size:11px}\
.status rect{fill:#f1f5f9;stroke:#475569;stroke-width:1.5}.status text{font-size:13px;text-anchor:middle}\
.claimed rect{fill:#fff7ed;stroke:#b45309;stroke-dasharray:5 4}.claimed text{font-style:italic}\
.initial rect{stroke-width:3}\
.line{fill:none;stroke-width:1.5;stroke:#475569}.claims{stroke:#b45309}.completes{stroke:#047857}\
.goes-back{stroke:#b91c1c;stroke-dasharray:4 3}\
.label{font-size:11px;text-anchor:middle;paint-order:stroke;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}\
#arrow path{fill:#475569}\
@media (prefers-color-scheme:dark){text{fill:#e2e8f0}.paper{fill:#0f172a}.label{stroke:#0f172a}\
.status rect{fill:#1e293b;stroke:#94a3b8}.claimed rect{fill:#3b2a14;stroke:#f59e0b}.line{stroke:#94a3b8}\
.claims{stroke:#f59e0b}.completes{stroke:#34d399}.goes-back{stroke:#f87171}#arrow path{fill:#94a3b8}}";

/// The state machine of `workflow` as an SVG picture. Claim states are dashed, initial ones have a bold frame.
pub fn draw_svg(workflow: &EntityWorkflow) -> String {
    let edges = edges(workflow);
    let layout = lay_out(workflow, &edges);
    let (width, height) = (layout.width.max(420.0).ceil(), layout.height.ceil());
    let title = escaped(&format!("{}: {}", workflow.name, workflow.entity));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\">\
         <path d=\"M 0 0 L 10 5 L 0 10 z\"/></marker></defs>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{title}</text>\n",
        HEAD - 14.0
    );
    // Writing to a string cannot fail.
    for line in &layout.lines {
        let (class, path) = (line.edge.kind.class(), &line.path);
        let _ = writeln!(svg, "<path class=\"line {class}\" d=\"{path}\" marker-end=\"url(#arrow)\"/>");
    }
    for status in &layout.boxes {
        let mut class = String::from("status");
        if workflow.is_transient(status.status) {
            class.push_str(" claimed");
        }
        if initial(workflow).contains(&status.status) {
            class.push_str(" initial");
        }
        let (x, y) = (status.x + status.width / 2.0, status.y + status.height / 2.0 + 4.5);
        let _ = writeln!(
            svg,
            "<g class=\"{class}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"10\"/>\
             <text x=\"{x:.1}\" y=\"{y:.1}\">{}</text></g>",
            status.x,
            status.y,
            status.width,
            status.height,
            escaped(status.status.as_str())
        );
    }
    for line in &layout.lines {
        let (x, y) = line.label;
        let text = escaped(&line.edge.label);
        let _ = writeln!(svg, "<text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>", y + 4.0);
    }
    let used = EdgeKind::ALL.iter().filter(|kind| edges.iter().any(|edge| edge.kind == **kind));
    let _ = writeln!(
        svg,
        "<desc>Arrows: {}.</desc>",
        used.map(|kind| kind.class()).collect::<Vec<_>>().join(", ")
    );
    svg.push_str("</svg>\n");
    svg
}

/// Names contain no XML special characters; escape them in case that changes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
