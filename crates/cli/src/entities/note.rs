//! `hapax entities note` and `hapax entities notes`.

use anyhow::Result;
use hapax_api::{AddEntityNote, JournalEntry};

use super::EntityArgument;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{self, plain};
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const NOTE_EXAMPLES: &str = "\
Examples:
  hapax entities note invoice INV-7 'the customer called'
  hapax entities note order R123 'the bank looks into it' --by ada

A note is taken also while an operation is in progress.";

const NOTES_EXAMPLES: &str = "\
Examples:
  hapax entities notes invoice INV-7
  hapax entities notes invoice INV-7 --json | jq -r .reason";

#[derive(Debug, clap::Args)]
#[command(after_help = NOTE_EXAMPLES)]
pub(super) struct NoteOptions {
    #[command(flatten)]
    named: EntityArgument,
    /// Text of the note.
    #[arg(value_parser = not_blank)]
    text: String,
    /// Your name, where several people share an API key.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = NOTES_EXAMPLES)]
pub(super) struct NotesOptions {
    #[command(flatten)]
    named: EntityArgument,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn add(options: NoteOptions, server: &ServerOptions) -> Result<()> {
    let NoteOptions { named, text, by, key, shape } = options;
    let (kind, id) = named.pair();
    let asked = AddEntityNote { text, by };
    let noted = server.connect()?.add_entity_note(kind, id, &asked, key.options()).await?;
    shape.show(&noted, || format!("noted on {} {}\n", plain(kind), plain(id)))
}

pub(super) async fn list(options: NotesOptions, server: &ServerOptions) -> Result<()> {
    let NotesOptions { named, limit, shape } = options;
    let (kind, id) = named.pair();
    let client = server.connect()?;
    let found = limit.read(async |paging| client.list_entity_notes(kind, id, &paging).await).await?;
    shape.show_all(&found, || table(&found))
}

fn table(notes: &[JournalEntry]) -> String {
    if notes.is_empty() {
        return "there are no notes\n".into();
    }
    let mut table = tables::table(["when", "who", "what", "operation", "note"]);
    for note in notes {
        table.add_row([
            note.at.clone(),
            or_dash(note.actor.as_ref().map(|by| by.name.as_str())),
            spelled(&note.what),
            or_dash(note.operation_id.as_deref()),
            or_dash(note.reason.as_deref()),
        ]);
    }
    format!("{table}\n")
}
