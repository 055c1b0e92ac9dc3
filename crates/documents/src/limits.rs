//! Every limit of documents, in one place; limits of the engine are in [`hapax_engine::limits`].

use std::time::Duration;

/// Largest document, in bytes of text.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Deepest nesting of the text of a document.
pub const MAX_DOCUMENT_DEPTH: usize = 64;
/// Maximum number of values (strings, numbers, lists, objects) in the text of a document.
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
/// Deepest syntax tree of an expression; a chain of `+` adds one level per operand.
pub const MAX_EXPRESSION_LEVELS: usize = 96;
/// Most loops (`map`, `filter`, `all`, …) inside one another in an expression.
pub const MAX_COMPREHENSION_NESTING: usize = 3;
/// Fuel that one core uses in a millisecond, measured with a release build. Fuel roughly counts bytes read and created,
/// so an expression's limit is the same on every machine and in every replay.
pub const FUEL_PER_MILLISECOND: u64 = 120_000;
/// Fuel of one evaluation: about 50 milliseconds of one core.
pub const MAX_EXPRESSION_FUEL: u64 = 50 * FUEL_PER_MILLISECOND;
/// Shared fuel of expressions that are evaluated together, for example in one template: about 200 milliseconds.
pub const MAX_TOGETHER_FUEL: u64 = 200 * FUEL_PER_MILLISECOND;
/// Most workspaces whose expensive evaluations are measured.
pub const MAX_MEASURED_WORKSPACES: usize = 1_000;
/// Fuel that may be spent on the calling thread, about one millisecond; more expensive evaluations take turns among
/// workspaces.
pub const INLINE_FUEL: u64 = FUEL_PER_MILLISECOND;
/// Share of the cores for expensive evaluations: one in this many, and at least one core.
pub const CORES_PER_EVALUATION: usize = 2;
/// Largest value of an expression or template, in approximate bytes of JSON.
pub const MAX_EXPRESSION_OUTPUT: usize = 1024 * 1024;
/// Maximum number of template parts in one string.
pub const MAX_TEMPLATE_PIECES: usize = 256;

/// Maximum size of all step outputs of a run together, in approximate bytes.
pub const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// Largest answer that an `http` step reads.
pub const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Maximum size of an answer's headers that mappings can see, in bytes.
pub const MAX_RESPONSE_HEADER_BYTES: usize = 16 * 1024;
/// Maximum number of headers that an `http` step may send.
pub const MAX_HEADERS: usize = 64;
/// Longest URL of a request.
pub const MAX_URL_BYTES: usize = 8 * 1024;
/// Most hosts that `hostFromData` may list.
pub const MAX_HOSTS: usize = 32;
/// Default length of the part of a failed answer that a failure contains, in characters (see `keepResponse`).
pub const DEFAULT_KEPT_RESPONSE_CHARS: usize = 500;
/// Maximum of that length that `keepResponse` may set, in characters.
pub const MAX_KEPT_RESPONSE_CHARS: usize = 2_000;
/// Length of the part of a URL that a failure shows, in characters.
pub const MAX_SHOWN_URL_CHARS: usize = 300;
/// Maximum number of destinations of one secret.
pub const MAX_DESTINATIONS: usize = 100;
/// Default timeout of an `http` step.
pub const DEFAULT_HTTP_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest timeout of an `http` step.
pub const MAX_HTTP_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest timeout of an after-effect: together with the grace it is the outbox's time for an attempt.
pub const MAX_AFTER_EFFECT_TIMEOUT: Duration = Duration::from_secs(55);
/// Grace between the caller's timeout and the engine's timeout for an `http` attempt.
pub const HTTP_GRACE: Duration = Duration::from_secs(5);

/// Most actions of one webhook source.
pub const MAX_ACTIONS: usize = 10;
/// Maximum number of expressions in one webhook source: each reads the whole event.
pub const MAX_SOURCE_EXPRESSIONS: usize = 200;
/// Largest body of a webhook.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// Maximum size of a webhook's headers that expressions can see, in bytes.
pub const MAX_EVENT_HEADER_BYTES: usize = 64 * 1024;
/// Longest id of an event, in characters.
pub const MAX_EVENT_ID_CHARS: usize = 255;
/// Maximum number of fields in a webhook sent as a form.
pub const MAX_FORM_FIELDS: usize = 1_000;
/// Maximum size of all actions of one event together, in approximate bytes.
pub const MAX_PLAN_BYTES: usize = 4 * 1024 * 1024;
/// Longest JSON pointer to the id of an event, in bytes.
pub const MAX_POINTER_BYTES: usize = 256;
/// Longest challenge of a provider that is echoed, in characters.
pub const MAX_CHALLENGE_CHARS: usize = 1_024;

/// Maximum number of refused answers to one approval before the step fails.
pub const MAX_REFUSED_ANSWERS: usize = 100;
/// Longest comment with an answer to an approval, in characters.
pub const MAX_COMMENT_CHARS: usize = 4_096;

/// Most statuses of one entity workflow.
pub const MAX_STATUSES: usize = 200;
/// Most steps of one entity workflow.
pub const MAX_ENTITY_STEPS: usize = 200;
/// Maximum number of requesters that one field of a step distinguishes.
pub const MAX_REQUESTERS: usize = 32;
/// Most conditions that one step checks before its claim.
pub const MAX_VALIDATIONS: usize = 32;
/// Largest step id of an entity workflow.
pub const MAX_STEP_ID: u32 = 1_000_000_000;
/// Longest reason of a service that is passed on with a rejection, in characters.
pub const MAX_REJECTION_CHARS: usize = 500;
