//! Every limit of documents, in one place; what the engine limits is in [`hapax_engine::limits`].

use std::time::Duration;

/// Largest document, in bytes of text.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Deepest nesting of the text of a document.
pub const MAX_DOCUMENT_DEPTH: usize = 64;
/// Most values (texts, numbers, lists, objects) in the text of a document.
pub const MAX_DOCUMENT_VALUES: usize = 50_000;
/// Most steps of a document, nested ones included.
pub const MAX_STEPS: usize = 1_000;
/// Deepest nesting of steps in conditions, branches and loops.
pub const MAX_STEP_NESTING: usize = 8;
/// Most branches of one parallel step.
pub const MAX_BRANCHES: usize = 64;
/// Most items one `for_each` may go over.
pub const MAX_ITEMS: usize = 1_000;
/// Most items of a `for_each` under way at once.
pub const MAX_CONCURRENCY: usize = 64;
/// Most problems that one check reports; the rest are counted.
pub const MAX_PROBLEMS: usize = 200;
/// Longest description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 4_096;

/// Largest input schema, in bytes of compact JSON.
pub const MAX_INPUT_SCHEMA_BYTES: usize = 64 * 1024;
/// Deepest nesting of schemas in an input schema, including the targets of `$ref`.
pub const MAX_INPUT_SCHEMA_DEPTH: usize = 32;
/// Most schemas in an input schema once every `$ref` is followed. It bounds the work for one value of an input.
pub const MAX_INPUT_SCHEMA_SCHEMAS: usize = 1_000;
/// Most `unevaluatedProperties` and `unevaluatedItems` in an input schema: each evaluates what is beside it once more.
pub const MAX_INPUT_SCHEMA_UNEVALUATED: usize = 8;
/// Largest compiled pattern of an input schema, in bytes.
pub const MAX_INPUT_PATTERN_BYTES: usize = 1024 * 1024;
/// Most problems reported for one input.
pub const MAX_INPUT_PROBLEMS: usize = 50;

/// Longest expression, in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 4_096;
/// Deepest nesting of brackets, operators and calls in an expression.
pub const MAX_EXPRESSION_DEPTH: usize = 48;
/// Deepest tree an expression may be read into; a chain of `+` is one level for each.
pub const MAX_EXPRESSION_LEVELS: usize = 96;
/// Most loops (`map`, `filter`, `all`, …) inside one another in an expression.
pub const MAX_COMPREHENSION_NESTING: usize = 3;
/// Fuel that one millisecond of one core burns, measured with a release build. Fuel counts about the bytes read and made, so what an
/// expression may do is the same on every machine and in every replay.
pub const FUEL_PER_MILLISECOND: u64 = 120_000;
/// How much one evaluation may read and make: about 50 milliseconds of one core.
pub const MAX_EXPRESSION_FUEL: u64 = 50 * FUEL_PER_MILLISECOND;
/// Fuel for all expressions that are evaluated together, such as those of one template: about 200 milliseconds.
pub const MAX_TOGETHER_FUEL: u64 = 200 * FUEL_PER_MILLISECOND;
/// How much is evaluated at once on the thread that asks; what needs more takes its turn among workspaces: about one millisecond.
pub const INLINE_FUEL: u64 = FUEL_PER_MILLISECOND;
/// Part of the cores that expensive evaluations may use together: one in this many, and at least one core.
pub const CORES_PER_EVALUATION: usize = 2;
/// Largest value an expression or a template may give, in about bytes of JSON text.
pub const MAX_EXPRESSION_OUTPUT: usize = 1024 * 1024;
/// Most templates' pieces in one text.
pub const MAX_TEMPLATE_PIECES: usize = 256;

/// Most that the outputs of all steps of a run may hold together, in about bytes.
pub const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// Largest answer of an `http` step that is read.
pub const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Most bytes of headers of an answer that mappings can see.
pub const MAX_RESPONSE_HEADER_BYTES: usize = 16 * 1024;
/// Most headers an `http` step may send.
pub const MAX_HEADERS: usize = 64;
/// Longest URL that is sent.
pub const MAX_URL_BYTES: usize = 8 * 1024;
/// Most hosts that `hostFromData` may list.
pub const MAX_HOSTS: usize = 32;
/// How much of an answer that is no success a failure keeps, in characters, unless `keepResponse` says otherwise.
pub const DEFAULT_KEPT_RESPONSE_CHARS: usize = 500;
/// Most of an answer that `keepResponse` may keep, in characters.
pub const MAX_KEPT_RESPONSE_CHARS: usize = 2_000;
/// How much of a URL a failure shows, in characters.
pub const MAX_SHOWN_URL_CHARS: usize = 300;
/// Most destinations of one secret.
pub const MAX_DESTINATIONS: usize = 100;
/// How long an `http` step waits for its answer, unless it says otherwise.
pub const DEFAULT_HTTP_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest an `http` step may wait for its answer.
pub const MAX_HTTP_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest an after-effect may wait for its answer: with the grace it is what the outbox gives an attempt.
pub const MAX_AFTER_EFFECT_TIMEOUT: Duration = Duration::from_secs(55);
/// How much longer than the caller the engine waits before it cuts an `http` attempt off.
pub const HTTP_GRACE: Duration = Duration::from_secs(5);

/// Most actions of one webhook source.
pub const MAX_ACTIONS: usize = 10;
/// Most expressions of one webhook source: each looks at the whole event.
pub const MAX_SOURCE_EXPRESSIONS: usize = 200;
/// Largest body of a webhook.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// Most bytes of headers of a webhook that expressions can see.
pub const MAX_EVENT_HEADER_BYTES: usize = 64 * 1024;
/// Longest id of an event, in characters.
pub const MAX_EVENT_ID_CHARS: usize = 255;
/// Most fields of a webhook that comes as a form.
pub const MAX_FORM_FIELDS: usize = 1_000;
/// Most that all actions of one event may hold together, in about bytes.
pub const MAX_PLAN_BYTES: usize = 4 * 1024 * 1024;
/// Longest JSON pointer to the id of an event, in bytes.
pub const MAX_POINTER_BYTES: usize = 256;
/// Longest challenge of a provider that is repeated to it, in characters.
pub const MAX_CHALLENGE_CHARS: usize = 1_024;

/// Most answers to one approval that are refused before the step gives up.
pub const MAX_REFUSED_ANSWERS: usize = 100;
/// Longest comment with an answer to an approval, in characters.
pub const MAX_COMMENT_CHARS: usize = 4_096;

/// Most statuses of one entity workflow.
pub const MAX_STATUSES: usize = 200;
/// Most steps of one entity workflow.
pub const MAX_ENTITY_STEPS: usize = 200;
/// Most requesters that one field of a step tells apart.
pub const MAX_REQUESTERS: usize = 32;
/// Most conditions that one step checks before its claim.
pub const MAX_VALIDATIONS: usize = 32;
/// Largest step id of an entity workflow.
pub const MAX_STEP_ID: u32 = 1_000_000_000;
/// Longest reason a service gives for a rejection that is passed on, in characters.
pub const MAX_REJECTION_CHARS: usize = 500;
