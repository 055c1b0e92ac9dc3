//! HTTP requests to the outside world, held to where they may go and how much may come back.
//!
//! Workflows say where their requests go, so a request is hostile input: it may aim at the cloud's metadata service, at a
//! database beside us, at our own admin port. [`Outgoing`] sends it only where [`Rules`] let it go. The decision is made
//! on the very address that is then connected to, after the name was looked up, so a name that changes its mind in
//! between (DNS rebinding) gains nothing.
//!
//! Responses are hostile too: time, header and body are bounded, redirects are reported and never followed,
//! no proxy of the environment is used, and nothing is decompressed (`Accept-Encoding: identity` is asked for; bytes
//! are counted, kept and handed over as they came).
//!
//! Every request has a connection of its own. That costs a handshake and buys an exact answer to the question that
//! matters for effects: whether the request may have happened ([`Fault::Unknown`]) or cannot have ([`Fault::NotSent`]).
//! On a connection taken from a pool, a server that closes it as idle leaves that open.
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
mod exchange;
mod fault;
pub mod limits;
mod lookup;
mod outgoing;
mod place;
mod request;
mod rules;
mod target;
mod tls;
mod watched;

pub use address::Kind;
pub use fault::{Fault, Part, Refusal};
pub use lookup::{Answers, Lookup, SystemLookup};
pub use outgoing::{Outgoing, Unusable};
pub use place::{BadPlace, Place};
pub use request::{Answer, Request, SendCheck};
pub use rules::{CLOSED_PORTS, Ports, Rules};
