//! A connection to a target: name lookup, address check, connect. The only place that opens a socket.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::fault::{Fault, Refusal};
use crate::limits::MAX_ADDRESSES;
use crate::lookup::Lookup;
use crate::rules::Rules;
use crate::target::{Host, Target};

/// Connects to the first permitted address that accepts.
pub(crate) async fn connect(
    rules: &Rules,
    lookup: &dyn Lookup,
    target: &Target,
    deadline: Instant,
) -> Result<TcpStream, Fault> {
    rules.judge_target(target)?;
    let found = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => find_addresses(lookup, name, deadline).await?,
    };
    let open = keep_open(rules, target, found)?;
    let mut problem = String::new();
    for (tried, address) in open.iter().enumerate() {
        // Each address gets its share of the remaining time, so an address that drops packets does not block a working
        // one.
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / (open.len() - tried) as u32;
        let at = SocketAddr::new(*address, target.port);
        match timeout_at(now + share, TcpStream::connect(at)).await {
            Ok(Ok(stream)) => return refuse_ourselves(rules, target, stream),
            Ok(Err(error)) => {
                problem = format!("could not connect to `{}`: {}", target.authority, error.kind())
            }
            Err(_) => problem = format!("could not connect to `{}` in time", target.authority),
        }
    }
    Err(Fault::NotSent { why: problem })
}

async fn find_addresses(lookup: &dyn Lookup, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, Fault> {
    let failed = |why: String| Fault::NotSent { why };
    match timeout_at(deadline, lookup.lookup(name)).await {
        Ok(Ok(found)) if found.is_empty() => Err(failed(format!("`{name}` has no address"))),
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(failed(format!("`{name}` could not be looked up: {error}"))),
        Err(_) => Err(failed(format!("`{name}` could not be looked up in time"))),
    }
}

/// The permitted addresses among those found, or the first refusal if none is permitted.
fn keep_open(rules: &Rules, target: &Target, found: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refusal> {
    let mut refusal = None;
    let mut open = Vec::new();
    for address in found {
        match rules.judge_address(target, address) {
            Ok(()) if open.len() < MAX_ADDRESSES => open.push(address),
            Ok(()) => break,
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    match (open.is_empty(), refusal) {
        (true, Some(why)) => Err(why),
        (true, None) | (false, _) => Ok(open),
    }
}

/// Returns a connection unless it leads to one of our listeners on every address of this machine. Those addresses
/// cannot be listed, but a connection from an address to itself reveals one.
fn refuse_ourselves(rules: &Rules, target: &Target, stream: TcpStream) -> Result<TcpStream, Fault> {
    let failed =
        |error: std::io::Error| Fault::NotSent { why: format!("the connection was lost: {}", error.kind()) };
    let here = stream.local_addr().map_err(failed)?.ip();
    let there = stream.peer_addr().map_err(failed)?.ip();
    match here == there && rules.is_own_port(target.port) {
        true => Err(Refusal::Denied { host: target.host.to_string() }.into()),
        false => Ok(stream),
    }
}
