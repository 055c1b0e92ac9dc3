//! From names to addresses: the seam that tests take the place of.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// The addresses of a name, or why there are none.
pub type Answers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of names. What it answers is not trusted: every address is judged before it is connected to.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name, the best first.
    fn lookup<'a>(&'a self, name: &'a str) -> Answers<'a>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> Answers<'a> {
        Box::pin(
            async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) },
        )
    }
}
