//! `hapax runs result`.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::exit_codes::NotYet;
use crate::output::{print, shape};
use crate::server_options::ServerOptions;
use crate::spelling::spelled;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax runs result run_018f… | jq .total
  hapax runs result run_018f… --wait 600

Prints the output as it was recorded. A run that failed or was cancelled exits with 1 and says why; one that has not ended
exits with 7.";

/// The longest wait that a server grants in one request.
const MOST_AT_ONCE: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The run.
    #[arg(value_parser = word)]
    run: String,
    /// How long to wait for its end.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let give_up_at = Instant::now() + Duration::from_secs(options.wait);
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        // In whole seconds on the wire: rounded up, so that the last part is waited for, too.
        let wait = Duration::from_secs(left.min(MOST_AT_ONCE).as_millis().div_ceil(1_000) as u64);
        let result = client.get_result(&options.run, wait).await?;
        let status = spelled(&result.status);
        match (result.output, result.failure) {
            (Some(output), _) => return print(&shape::safe(format!("{}\n", output.text()))),
            (None, Some(failure)) => {
                let message = shape::safe(failure.message);
                anyhow::bail!("{} has no output, it is {status}: {message}", result.run_id);
            }
            (None, None) if wait.is_zero() || Instant::now() >= give_up_at => {
                return Err(NotYet(format!(
                    "{} has not ended, it is {status}; give --wait SECONDS to wait for it",
                    result.run_id
                ))
                .into());
            }
            (None, None) => {}
        }
    }
}
