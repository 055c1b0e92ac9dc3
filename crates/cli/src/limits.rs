//! Limits of the command.

use std::time::Duration;

/// The largest file with an API key.
pub(crate) const MAX_KEY_FILE_BYTES: u64 = 4 * 1024;
/// The largest file of profiles.
pub(crate) const MAX_PROFILES_BYTES: u64 = 256 * 1024;
/// The largest input, signal or decision.
pub(crate) const MAX_JSON_BYTES: u64 = 4 * 1024 * 1024;
/// The largest document or configuration.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;
/// Most characters of an id, a name or a key that is given as an argument.
pub(crate) const MAX_WORD_CHARS: usize = 1_024;
/// Steps that are drawn at a time while a run is watched; a terminal has not more lines to spare.
pub(crate) const MAX_LIVE_STEPS: usize = 20;
/// Longest wait that a server grants in one request.
pub(crate) const MAX_WAIT_AT_ONCE: Duration = Duration::from_secs(60);
/// Charges that a stub provider keeps. Past it, requests answer 507.
pub(crate) const MAX_STUB_CHARGES: usize = 100_000;
/// Calls that a stub provider lists.
pub(crate) const MAX_STUB_CALLS: usize = 10_000;
/// Connections that wait to be accepted.
pub(crate) const LISTEN_BACKLOG: u32 = 1_024;
/// How long the name of the database may take to be looked up, before its name alone is closed to requests.
pub(crate) const OWN_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest secret that documents name, in bytes.
pub(crate) const MAX_SECRET_BYTES: u64 = 64 * 1024;
/// Longest time that the command of `secrets-command` may take.
pub(crate) const SECRET_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a secret of that command is used before it is asked again.
pub(crate) const KEEP_SECRET_OF_COMMAND_FOR: Duration = Duration::from_secs(30);
/// Most such commands at once.
pub(crate) const MAX_SECRET_COMMANDS_AT_ONCE: usize = 4;
/// Most secrets of that command that are kept in memory.
pub(crate) const MAX_SECRETS_OF_COMMAND_KEPT: usize = 1_000;
/// How far before the last exported entry is looked for entries that were committed late.
pub(crate) const AUDIT_EXPORT_LOOK_BACK: Duration = Duration::from_secs(600);
/// Pause between two looks for new entries of the audit log.
pub(crate) const FOLLOW_AUDIT_EVERY: Duration = Duration::from_secs(2);
/// Longest line of an exported audit log, in bytes.
pub(crate) const MAX_AUDIT_LINE_BYTES: usize = 1024 * 1024;
/// Largest file with the key of an exported audit log.
pub(crate) const MAX_AUDIT_KEY_BYTES: u64 = 64 * 1024;
/// Shortest such key, in bytes.
pub(crate) const MIN_AUDIT_KEY_BYTES: usize = 32;
/// Files of secrets that are warned about, each once, because others can read them.
pub(crate) const MAX_SECRET_WARNINGS: usize = 1_000;
/// Unbound secrets that one warning names.
pub(crate) const MAX_SHOWN_SECRETS: usize = 20;
/// Largest file with identity providers, in bytes.
pub(crate) const MAX_IDENTITY_PROVIDERS_BYTES: u64 = 1024 * 1024;
/// Largest file with the secret of a client of an identity provider, in bytes.
pub(crate) const MAX_CLIENT_SECRET_BYTES: u64 = 16 * 1024;
/// Largest file that holds a sealing key, in bytes.
pub(crate) const MAX_SEALING_KEY_BYTES: u64 = 64 * 1024;

/// Pause after the first try to open a database that is away at the start of a server; doubles with each.
pub(crate) const FIRST_STORE_PAUSE: Duration = Duration::from_millis(500);
/// Longest such pause.
pub(crate) const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(10);
/// Longest time to finish requests that got 503 while the database was away.
pub(crate) const WAITING_DRAIN: Duration = Duration::from_secs(1);
/// Longest time to give up an engine whose server could not be started.
pub(crate) const ABANDON_WITHIN: Duration = Duration::from_secs(2);
/// Longest time that the last spans may take to be exported when a server stops.
pub(crate) const LAST_EXPORT: Duration = Duration::from_secs(2);
/// Interval between two progress reports of a long copy.
pub(crate) const TELL_PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for an interrupted copy to remove its temporary files.
pub(crate) const BREAK_OFF_WITHIN: Duration = Duration::from_secs(5);
/// Most violations of a backup that are listed one by one.
pub(crate) const MAX_SHOWN_VIOLATIONS: usize = 20;
