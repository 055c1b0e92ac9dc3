//! Name resolution, replaceable in tests.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// The addresses of a name, or the error.
pub type Answers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names. Its answers are not trusted: every address is checked before it is connected to.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name, the best first.
    fn lookup<'a>(&'a self, name: &'a str) -> Answers<'a>;
}

/// Resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> Answers<'a> {
        Box::pin(
            async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) },
        )
    }
}
