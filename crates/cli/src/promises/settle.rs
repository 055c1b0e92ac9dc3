//! `hapax promises resolve` and `hapax promises reject`.

use anyhow::Result;
use hapax_api::client::Settled;
use hapax_api::{RawJson, RejectPromise, ResolvePromise};

use super::promise;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::{json, word};
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const RESOLVING: &str = "\
Examples:
  hapax promises resolve key:stripe:ch_1 --value '{\"paid\":true}'
  hapax promises resolve id:run_018f…:go

The first settlement counts. The same again is fine; another value is refused with 6. A key that names no promise yet keeps the
value for the one it will name.";

const REJECTING: &str = "\
Examples:
  hapax promises reject key:stripe:ch_1 --message 'the card was declined' --code declined";

#[derive(Debug, clap::Args)]
#[command(after_help = RESOLVING)]
pub(super) struct ResolveOptions {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// Its value; null if none is given.
    #[arg(long, value_name = "JSON", value_parser = json)]
    value: Option<RawJson>,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = REJECTING)]
pub(super) struct RejectOptions {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// Why, for people.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    message: String,
    /// Why, for the run that waits: a short stable word.
    #[arg(long, value_name = "WORD", value_parser = word)]
    code: Option<String>,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn resolve(options: ResolveOptions, server: &ServerOptions) -> Result<()> {
    let asked = ResolvePromise { value: options.value };
    let client = server.connect()?;
    let settled = client.resolve_promise(&options.named, &asked, options.request.options()).await?;
    show(&settled, &options.shape)
}

pub(super) async fn reject(options: RejectOptions, server: &ServerOptions) -> Result<()> {
    let asked = RejectPromise { message: options.message, code: options.code };
    let client = server.connect()?;
    let settled = client.reject_promise(&options.named, &asked, options.request.options()).await?;
    show(&settled, &options.shape)
}

fn show(settled: &Settled, shape: &ShapeOptions) -> Result<()> {
    match settled {
        Settled::Promise(settled) => shape.show(settled, || {
            let when = if settled.already_settled { "was already" } else { "is now" };
            format!("{} {when} {}\n", plain(&settled.promise.id), spelled(&settled.promise.status))
        }),
        Settled::KeptEarly(kept) => shape.show(kept, || {
            let key = plain(&kept.idempotency_key);
            format!("{key} names no promise yet; the settlement is kept for it until {}\n", kept.until)
        }),
    }
}
