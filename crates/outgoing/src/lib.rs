//! HTTP requests to the outside world, with limits on their destinations and their answers.
//!
//! Workflows choose where their requests go, so a request is hostile input: it may aim at the cloud's metadata service,
//! a database next to us, or our own admin port. [`Outgoing`] sends it only where [`Rules`] permit it. It checks the
//! exact address it then connects to, after the name lookup, so a name that resolves differently in between (DNS
//! rebinding) gains nothing.
//!
//! Responses are hostile too. Time, headers and body are bounded. Redirects are reported and never followed.
//! Environment proxies are ignored. Nothing is decompressed: the request asks for `Accept-Encoding: identity`, and
//! bytes are counted, stored and returned as received.
//!
//! Every request has its own connection. That costs a handshake, and in return shows exactly whether the request may
//! have happened ([`Fault::Unknown`]) or cannot have ([`Fault::NotSent`]). On a pooled connection this stays unclear
//! when a server closes it as idle.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use hapax_outgoing::{Fault, Outgoing, Request, Rules};
//!
//! let outgoing = Outgoing::new(Rules { allow: vec!["10.8.0.0/16".parse()?], ..Rules::default() })?;
//! match outgoing.send(Request::post("https://api.example.com/charges", r#"{"amount":100}"#)).await {
//!     Ok(answer) => println!("{} {} bytes", answer.status, answer.body.len()),
//!     Err(Fault::NotSent { why }) => println!("nothing happened, try again: {why}"),
//!     Err(fault) => println!("{fault}"),
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod connect;
mod destination_pattern;
mod exchange;
mod fault;
pub mod limits;
mod lookup;
mod outgoing;
mod request;
mod rules;
mod target;
mod tls;
mod tracked_stream;

pub use address::Kind;
pub use destination_pattern::{BadPlace, DestinationPattern};
pub use fault::{Fault, Part, Refusal};
pub use lookup::{Answers, Lookup, SystemLookup};
pub use outgoing::{InvalidRules, Outgoing};
pub use request::{Answer, Request, SendCheck};
pub use rules::{CLOSED_PORTS, Ports, Rules};
