//! `hapax runs note`.

use anyhow::Result;
use hapax_api::AddNote;

use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::word;
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax runs note run_018f… 'the customer called'
  hapax runs note run_018f… 'the bank looks into it' --step charge

`hapax audit --run run_018f…` lists the notes.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Text of the note.
    #[arg(value_parser = not_blank)]
    text: String,
    /// Step that the note is about.
    #[arg(long, value_name = "STEP", value_parser = word)]
    step: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { run, text, step, key, shape } = options;
    let asked = AddNote { text, step_id: step };
    let noted = server.connect()?.add_note(&run, &asked, key.options()).await?;
    shape.show(&noted, || format!("noted on {}\n", plain(&run)))
}
