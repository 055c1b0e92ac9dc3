//! Every limit of the console, by name.

use std::time::Duration;

/// Largest form that is read.
pub const MAX_FORM_BYTES: usize = 1 << 20;
/// Largest answer of the API that a page reads.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Longest path to return to after signing in.
pub const MAX_NEXT_BYTES: usize = 2_048;
/// Longest message that is carried to the next page.
pub const MAX_FLASH_CHARS: usize = 400;
/// Rows on a page of a list.
pub const PAGE_ROWS: usize = 50;
/// Steps of a run on one page.
pub const MAX_STEPS_SHOWN: usize = 200;
/// Longest JSON value that is laid out; a longer one is shown as plain text.
pub const MAX_LAID_OUT_JSON: usize = 64 << 10;
/// Longest JSON value that is shown; a longer one is cut, with a link to all of it.
pub const MAX_SHOWN_JSON: usize = 256 << 10;
/// How long a session lasts without a request.
pub const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);
/// How long a session lasts.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Sessions of one credential; the one used longest ago ends for a new one.
pub const MAX_SESSIONS_PER_CREDENTIAL: usize = 20;
/// How long a sign-in at an identity provider may take.
pub const SIGN_IN_AT_PROVIDER: Duration = Duration::from_secs(10 * 60);
/// Longest description of a browser that is kept.
pub const MAX_AGENT_CHARS: usize = 120;
/// Shortest time between two updates of a live page.
pub const LIVE_PAUSE: Duration = Duration::from_millis(700);
/// How often a live page that nothing happens to hears that its connection lives.
pub const LIVE_KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Pages of the ledger that one look at the evidence reads.
pub const MAX_EVIDENCE_PAGES: usize = 10;
/// Most bars in the chart of the evidence over time.
pub const MAX_HISTORY_BARS: usize = 48;
/// Most commits of a run whose page shows each attempt. The page of a longer run shows only steps.
pub const MAX_COMMITS_WITH_ATTEMPTS: u64 = 2_000;
/// Differences between two requests that are named.
pub const MAX_DIFFERENCES: usize = 50;
/// Runs of a search whose effects are listed.
pub const MAX_SEARCHED_RUNS: usize = 10;
/// Longest time that a form waits for the action of an entity's step.
pub const MAX_STEP_WAIT: Duration = Duration::from_secs(2);
/// Pages of open doubts that a lookup reads.
pub const MAX_DOUBT_PAGES: usize = 10;
/// Most credentials that a lookup of a request key tries.
pub const MAX_KEY_CALLERS: usize = 50;
/// Pages of the audit log in one export.
pub const MAX_AUDIT_PAGES: usize = 50;
/// Deepest nesting of an input that a form has fields for; what lies deeper is typed as JSON.
pub const MAX_INPUT_DEPTH: usize = 4;
/// Deepest nesting of steps that is drawn.
pub const MAX_DRAWN_DEPTH: usize = 16;
/// Pages of workflow definitions that the approvals look through.
pub const MAX_DEFINITION_PAGES: usize = 10;
/// Workflows whose runs the approvals look into at once; for the others, choose one.
pub const MAX_ASKING_WORKFLOWS: usize = 20;
/// Definitions in the cache of those that ask for approvals.
pub const MAX_KNOWN_DEFINITIONS: usize = 10_000;
