//! The node that answers, its background loops and settings; and the runs that nodes drive now.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::response::Response;
use hapax_api::{Node, Page, RunLease};
use maud::{Markup, html};
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, ui};

const PATH: &str = "/console/admin/nodes";

#[derive(Debug, Default, Deserialize)]
pub(super) struct Place {
    #[serde(default)]
    cursor: String,
}

pub(super) async fn show(visit: Visit, Query(Place { cursor }): Query<Place>) -> Result<Response, Failure> {
    let node: Option<Node> = match visit.may(&ops::SHOW_NODE) {
        true => Some(visit.read(&ops::SHOW_NODE, &[], &[]).await?),
        false => None,
    };
    let query = [("cursor", Some(cursor.as_str())), ("limit", Some("200"))];
    let leases: Page<RunLease> = visit.read(&ops::LIST_LEASES, &[], &query).await?;
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    leases.items.iter().for_each(|lease| *owners.entry(&lease.owner).or_default() += 1);
    let here = node.as_ref().map(|node| node.id.as_str());
    let busy = owners.iter().map(|(owner, count)| {
        vec![
            html! { (ui::id(owner)) @if here == Some(*owner) { " " (ui::tag("answers you")) } },
            html! { span.number { (count) } },
        ]
    });
    let rows = leases.items.iter().map(|lease| {
        vec![
            ui::run_link(&lease.run_id),
            html! { (lease.workflow) },
            ui::id(&lease.owner),
            html! { span.number { (lease.fence) } },
            ui::ago(&lease.expires_at, visit.now_ms),
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Who does the work now, and whether the work behind the scenes is done in time." }))
        @match &node {
            Some(node) => { (about(&visit, node)) }
            None => { p.hint { "Background loops and settings are for admins." } }
        }
        section {
            h2 { "Nodes at work" }
            (ui::table(&["Node", "Runs that it drives"], busy.collect(), "No node drives a run of this workspace at this moment. Runs that wait are driven by nobody."))
        }
        section {
            h2 { "Leases" }
            (ui::table(&["Run", "Workflow", "Node", "Fence", "Ends, unless renewed"], rows.collect(), "No run is driven at this moment."))
            (ui::pager(PATH, &[], cursor.is_empty(), leases.next_cursor.as_deref()))
        }
    };
    Ok(visit.page("Nodes", content))
}

fn about(visit: &Visit, node: &Node) -> Markup {
    let loops = node.loops.iter().map(|it| {
        vec![
            html! { b { (capitalised(&it.name)) } @if let Some(about) = meaning(&it.name) { div.dim { (about) } } },
            match (it.is_down, &it.last_run_at) {
                (true, _) => ui::badge(ui::State::Bad, "Restarting"),
                (false, Some(_)) => ui::badge(ui::State::Good, "Works"),
                (false, None) => ui::badge(ui::State::Waiting, "Not yet"),
            },
            html! { @match &it.last_run_at { Some(at) => { (ui::ago(at, visit.now_ms)) }, None => { (ui::none()) } } },
            html! { span.number { @if it.panics == 0 { span.dim { "0" } } @else { (it.panics) } } },
        ]
    });
    let settings =
        node.settings.iter().map(|it| vec![html! { code { (it.name) } }, html! { code { (it.in_force) } }]);
    html! {
        section {
            h2 { "This node" }
            (ui::facts(vec![("Id", ui::id(&node.id)), ("Version", html! { (node.server_version) }), ("Clock of the store", ui::time(&node.now))]))
        }
        section {
            h2 { "Background loops of this node" }
            (ui::table(&["Loop", "How it is", "Last run", "Panics"], loops.collect(), "None."))
        }
        section {
            h2 { "Settings in force on this node" }
            (ui::table(&["Setting", "Value"], settings.collect(), "The program that runs this node tells none."))
        }
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Purpose of a loop, if its name does not say it.
fn meaning(name: &str) -> Option<&'static str> {
    Some(match name {
        "scheduler" => "Finds runs that are due, and takes them over from vanished nodes.",
        "lease renewal" => "Keeps the leases of the runs that this node drives.",
        "outbox" => "Delivers after-effects and webhooks.",
        "heartbeats" => "Tells janitors that the holders of claims on this node live.",
        "cancelled families" => "Cancels the descendants of cancelled runs.",
        "retention" => "Deletes what has expired.",
        "use of keys" => "Writes down how often keys were used.",
        _ if name.starts_with("janitor of ") => "Gives back claims of vanished holders.",
        _ if name.starts_with("catalog of ") => "Learns what changed on other nodes.",
        _ => return None,
    })
}
