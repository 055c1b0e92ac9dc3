//! `hapax runs result`.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::exit_codes::NotFinished;
use crate::limits::MAX_WAIT_AT_ONCE;
use crate::output::{print, shape};
use crate::parsers::duration;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const EXAMPLES: &str = "\
Examples:
  hapax runs result run_018f… | jq .total
  hapax runs result run_018f… --wait                 wait until it ends
  hapax runs result run_018f… --wait 10m

Prints the output as it was recorded. A run that failed or was cancelled exits with 1 and says why; one that has not ended
exits with 7.";

/// Longer than anybody waits for a run.
const FOREVER: &str = "3650d";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Wait until the run ends, or for this long, such as 60s.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = FOREVER, value_parser = duration)]
    wait: Option<Duration>,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let give_up_at = Instant::now() + options.wait.unwrap_or_default();
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        // In whole seconds on the wire: rounded up, so that the last part is waited for, too.
        let wait = Duration::from_secs(left.min(MAX_WAIT_AT_ONCE).as_millis().div_ceil(1_000) as u64);
        let result = client.get_result(&options.run, wait).await?;
        let status = spelled(&result.status);
        match (result.output, result.failure) {
            (Some(output), _) => return print(&shape::safe(format!("{}\n", output.text()))),
            (None, Some(failure)) => {
                let message = shape::safe(failure.message);
                anyhow::bail!("{} has no output, it is {status}: {message}", result.run_id);
            }
            (None, None) if wait.is_zero() || Instant::now() >= give_up_at => {
                return Err(NotFinished(format!(
                    "{} has not ended, it is {status}; give --wait to wait for it",
                    result.run_id
                ))
                .into());
            }
            (None, None) => {}
        }
    }
}
