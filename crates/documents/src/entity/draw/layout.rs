//! Positions of statuses and arrows in a picture. Statuses are in columns by their distance from the start. Arrows to
//! the next column are straight, and all others use their own lanes below.

use std::collections::BTreeMap;

use hapax_engine::model::{EntityWorkflow, Name};

use super::{Edge, EdgeKind, initial, statuses};

/// Approximate width of a letter in a status, and in a label.
const STATUS_LETTER: f64 = 8.2;
const LABEL_LETTER: f64 = 6.4;
const ROW_GAP: f64 = 36.0;
const PORT: f64 = 22.0;
const CHANNEL: f64 = 10.0;
const LANE: f64 = 24.0;
const LABEL_HEIGHT: f64 = 17.0;
pub(super) const MARGIN: f64 = 24.0;
/// Height of the title.
pub(super) const HEAD: f64 = 44.0;

/// A status with its position.
#[derive(Debug)]
pub(super) struct Box<'a> {
    pub(super) status: &'a Name,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    column: usize,
}

/// An arrow with its position.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) edge: &'a Edge<'a>,
    /// The `d` attribute of an SVG path.
    pub(super) path: String,
    /// Centre of its label.
    pub(super) label: (f64, f64),
}

/// The whole picture.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) boxes: Vec<Box<'a>>,
    pub(super) lines: Vec<Line<'a>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

fn label_width(label: &str) -> f64 {
    label.chars().count() as f64 * LABEL_LETTER
}

/// Number of arrows from the start to each status.
fn columns<'a>(
    workflow: &'a EntityWorkflow,
    all: &[&'a Name],
    edges: &[Edge<'a>],
) -> BTreeMap<&'a Name, usize> {
    let mut columns: BTreeMap<&Name, usize> =
        initial(workflow).into_iter().map(|status| (status, 0)).collect();
    let mut open: std::collections::VecDeque<&Name> = initial(workflow).into();
    while let Some(status) = open.pop_front() {
        let next = columns.get(status).copied().unwrap_or_default() + 1;
        let ahead = edges.iter().filter(|edge| edge.from == status && edge.kind != EdgeKind::GoesBack);
        for edge in ahead {
            if !columns.contains_key(edge.to) {
                columns.insert(edge.to, next);
                open.push_back(edge.to);
            }
        }
    }
    for status in all {
        columns.entry(status).or_insert(0);
    }
    columns
}

/// Lays out a workflow.
pub(super) fn lay_out<'a>(workflow: &'a EntityWorkflow, edges: &'a [Edge<'a>]) -> Layout<'a> {
    let all = statuses(workflow, edges);
    let column_of = columns(workflow, &all, edges);
    let count = column_of.values().max().map_or(1, |last| last + 1);
    let column = |status: &Name| column_of.get(status).copied().unwrap_or_default();
    let is_direct = |edge: &Edge<'_>| column(edge.to) == column(edge.from) + 1;
    let mut order: Vec<Vec<&Name>> = vec![Vec::new(); count];
    all.iter().for_each(|status| order[column(status)].push(status));
    sort_rows(&mut order, edges, &is_direct);

    let gaps = gap_widths(count, edges, &column, &is_direct);
    let mut boxes = place_boxes(&order, edges, &gaps);
    let tallest = boxes.iter().map(|status| status.y + status.height).fold(0.0, f64::max);
    // Columns are centred vertically.
    for n in 0..count {
        let end = boxes.iter().filter(|status| status.column == n).map(|status| status.y + status.height);
        let shift = (tallest - end.fold(0.0, f64::max)) / 2.0;
        boxes.iter_mut().filter(|status| status.column == n).for_each(|status| status.y += shift);
    }
    let lines = place_lines(edges, &boxes, &gaps, &is_direct, tallest);
    let right = boxes.iter().map(|status| status.x + status.width).fold(0.0, f64::max);
    let of_labels = lines.iter().map(|line| line.label.0 + label_width(&line.edge.label) / 2.0);
    let width = of_labels.fold(right + gaps[count], f64::max) + MARGIN;
    let lanes = edges.iter().filter(|edge| !is_direct(edge)).count();
    let height = tallest + (lanes as f64 + 1.0) * LANE + MARGIN;
    Layout { boxes, lines, width, height }
}

/// Orders statuses to be near the statuses that lead to them.
fn sort_rows(order: &mut [Vec<&Name>], edges: &[Edge<'_>], is_direct: &impl Fn(&Edge<'_>) -> bool) {
    for n in 1..order.len() {
        let (before, rest) = order.split_at_mut(n);
        let rows = &before[n - 1];
        let middle = |status: &Name| {
            let into = edges.iter().filter(|edge| edge.to == status && is_direct(edge));
            let rows = into.filter_map(|edge| rows.iter().position(|row| *row == edge.from));
            let rows: Vec<f64> = rows.map(|row| row as f64).collect();
            rows.iter().sum::<f64>() / (rows.len().max(1) as f64)
        };
        rest[0].sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    }
}

/// Width of the gap before each column, and after the last: for labels, and for arrows to lanes.
fn gap_widths(
    count: usize,
    edges: &[Edge<'_>],
    column: &impl Fn(&Name) -> usize,
    is_direct: &impl Fn(&Edge<'_>) -> bool,
) -> Vec<f64> {
    let mut gaps = Vec::new();
    for gap in 0..=count {
        let direct = edges.iter().filter(|edge| is_direct(edge) && column(edge.to) == gap);
        let label = direct.map(|edge| label_width(&edge.label) + 30.0).fold(0.0, f64::max);
        let lanes = edges.iter().filter(|edge| !is_direct(edge));
        let channels =
            lanes.map(|edge| usize::from(column(edge.from) + 1 == gap) + usize::from(column(edge.to) == gap));
        let channels = channels.sum::<usize>() as f64 * CHANNEL + 2.0 * CHANNEL;
        let least = if gap == 0 || gap == count { 0.0 } else { 70.0 };
        gaps.push((label + channels).max(least));
    }
    gaps
}

fn place_boxes<'a>(order: &[Vec<&'a Name>], edges: &[Edge<'a>], gaps: &[f64]) -> Vec<Box<'a>> {
    let mut boxes = Vec::new();
    let mut x = MARGIN;
    for (column, statuses) in order.iter().enumerate() {
        x += gaps[column];
        let letters = statuses.iter().map(|status| status.as_str().len()).max().unwrap_or_default();
        let width = (letters as f64 * STATUS_LETTER + 28.0).max(84.0);
        let mut y = HEAD + MARGIN;
        for status in statuses {
            let ports =
                |of: fn(&Edge<'a>) -> &'a Name| edges.iter().filter(|edge| of(edge) == *status).count();
            let ports = ports(|edge| edge.from).max(ports(|edge| edge.to));
            let height = (ports as f64 * PORT + 12.0).max(42.0);
            boxes.push(Box { status, x, y, width, height, column });
            y += height + ROW_GAP;
        }
        x += width;
    }
    boxes
}

fn place_lines<'a>(
    edges: &'a [Edge<'a>],
    boxes: &[Box<'a>],
    gaps: &[f64],
    is_direct: &impl Fn(&Edge<'_>) -> bool,
    tallest: f64,
) -> Vec<Line<'a>> {
    let row = |status: &Name| boxes.iter().position(|known| known.status == status).unwrap_or_default();
    // The port of an arrow. Straight arrows come first, in the order of their targets; arrows to lanes come below them.
    let port = |edge: &Edge<'_>, out: bool| {
        let near = |edge: &Edge<'a>| if out { edge.from } else { edge.to };
        let far = |edge: &Edge<'_>| row(if out { edge.to } else { edge.from });
        let here = &boxes[row(if out { edge.from } else { edge.to })];
        let mut beside: Vec<&Edge<'a>> = edges.iter().filter(|other| near(other) == here.status).collect();
        beside.sort_by_key(|other| (!is_direct(other), far(other)));
        let nth = beside.iter().position(|other| std::ptr::eq(*other, edge)).unwrap_or_default();
        let y = here.y + here.height * (nth as f64 + 1.0) / (beside.len() as f64 + 1.0);
        (if out { here.x + here.width } else { here.x }, y)
    };
    let (mut leaving, mut arriving) = (vec![0usize; gaps.len()], vec![0usize; gaps.len()]);
    let mut taken: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut lane = 0usize;
    let mut lines = Vec::new();
    for edge in edges {
        let ((x1, y1), (x2, y2)) = (port(edge, true), port(edge, false));
        let (from, to) = (boxes[row(edge.from)].column, boxes[row(edge.to)].column);
        if is_direct(edge) {
            let middle = (x1 + x2) / 2.0;
            let path =
                format!("M {x1:.1} {y1:.1} C {middle:.1} {y1:.1}, {middle:.1} {y2:.1}, {x2:.1} {y2:.1}");
            let taken = taken.entry(to).or_default();
            let mut y = (y1 + y2) / 2.0;
            while let Some(other) = taken.iter().find(|other| (**other - y).abs() < LABEL_HEIGHT - 0.5) {
                y = other + LABEL_HEIGHT;
            }
            taken.push(y);
            lines.push(Line { edge, path, label: (middle, y) });
            continue;
        }
        leaving[from + 1] += 1;
        arriving[to] += 1;
        lane += 1;
        let out = x1 + leaving[from + 1] as f64 * CHANNEL + 2.0;
        let back = x2 - arriving[to] as f64 * CHANNEL - 8.0;
        let below = tallest + lane as f64 * LANE;
        let path = format!("M {x1:.1} {y1:.1} H {out:.1} V {below:.1} H {back:.1} V {y2:.1} H {x2:.1}");
        let least = MARGIN + label_width(&edge.label) / 2.0;
        lines.push(Line { edge, path, label: (((out + back) / 2.0).max(least), below) });
    }
    lines
}
