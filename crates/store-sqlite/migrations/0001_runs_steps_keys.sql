-- Runs, their steps, their history, and what arrives for them.
--
-- Instants are milliseconds since the Unix epoch, ids are 16 bytes in big-endian order, payloads are JSON text.
-- Enums are small numbers; codes.rs spells them out, and the CHECKs below hold the same rules as the enums. They are
-- written without IN, for which SQLite would build a table of its own each time a row is written.
-- No foreign keys: each would cost the hot path a lookup for a rule that every write obeys anyway.

-- 'HAPX': how this file is known again.
PRAGMA application_id = 1212239960;

-- Names are long and few; rows carry a small number instead. Rows here are never changed or deleted.
CREATE TABLE hapax_workspaces (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE hapax_workflows (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- The hot row: what changes while a run is driven, and what a claim looks at. Kept narrow, since an update writes all of it.
CREATE TABLE hapax_runs (
    workspace        INTEGER NOT NULL,
    id               BLOB    NOT NULL,
    version          INTEGER NOT NULL,
    token            INTEGER,                                -- marks the last write under a lease
    changed_at       INTEGER NOT NULL,
    stalls           INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    status           INTEGER NOT NULL CHECK (status BETWEEN 0 AND 6),
    wake_at          INTEGER,                                -- due_at, the end of the lease, or the timer
    lease_owner      BLOB,
    arrivals         INTEGER NOT NULL,
    generation       INTEGER NOT NULL,
    asked            INTEGER NOT NULL CHECK (asked BETWEEN 0 AND 2),
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    workflow         INTEGER NOT NULL,
    workflow_version INTEGER NOT NULL,
    started_at       INTEGER,
    closed_at        INTEGER,
    PRIMARY KEY (workspace, id),
    CHECK (length(id) = 16),
    -- Only a running run is leased, and it was started.
    CHECK (lease_owner IS NULL OR (status = 1 AND started_at IS NOT NULL AND length(lease_owner) = 16)),
    -- Ended and dated are the same thing.
    CHECK ((status >= 4) = (closed_at IS NOT NULL)),
    -- Pending and running runs are due some time; paused and ended ones never by time alone.
    CHECK (CASE WHEN status <= 1 THEN wake_at IS NOT NULL WHEN status = 2 THEN 1 ELSE wake_at IS NULL END)
) STRICT, WITHOUT ROWID;

-- Serves claim_runs: due runs of one workflow and priority, the longest due first; and when the next one will be.
CREATE INDEX hapax_runs_due ON hapax_runs (workflow, workflow_version, priority, wake_at, id) WHERE wake_at IS NOT NULL;

-- Serves list_runs by PENDING, RUNNING or WAITING: open runs are few beside the ended ones.
CREATE INDEX hapax_runs_open ON hapax_runs (workspace, id) WHERE closed_at IS NULL;

-- Serves list_runs by PAUSED, FAILED or CANCELLED: the ones people look for, and few.
CREATE INDEX hapax_runs_set_aside ON hapax_runs (workspace, status, id) WHERE status = 3 OR status >= 5;

-- What never changes about a run, and its input, which only continue-as-new replaces.
-- The one table whose key is not led by the workspace: a run id names one run in the whole store (a start under an id of
-- another workspace is refused), and purge and the list over all workspaces walk in the order of ids.
CREATE TABLE hapax_run_facts (
    id                 BLOB    NOT NULL PRIMARY KEY,
    workspace          INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    key                TEXT,
    fingerprint        BLOB,
    keep_key_for_ms    INTEGER,                              -- NULL is for ever
    release_on_failure INTEGER NOT NULL CHECK (release_on_failure IN (0, 1)),
    subject            TEXT,
    deadline_at        INTEGER,
    parent             BLOB,
    parent_step        TEXT,
    cancel_with_parent INTEGER,
    input              TEXT    NOT NULL,
    CHECK (length(id) = 16),
    CHECK ((key IS NULL) = (fingerprint IS NULL)),
    CHECK (fingerprint IS NULL OR length(fingerprint) = 32),
    CHECK ((parent IS NULL) = (parent_step IS NULL) AND (parent IS NULL) = (cancel_with_parent IS NULL)),
    CHECK (parent IS NULL OR (length(parent) = 16 AND cancel_with_parent IN (0, 1)))
) STRICT, WITHOUT ROWID;

-- Serves the end of a parent: the children that are to be cancelled with it.
CREATE INDEX hapax_run_facts_children ON hapax_run_facts (workspace, parent) WHERE cancel_with_parent = 1;

-- What a run ended with; gone again when a failed run is retried.
CREATE TABLE hapax_run_results (
    workspace INTEGER NOT NULL,
    run       BLOB    NOT NULL,
    status    INTEGER NOT NULL CHECK (status BETWEEN 4 AND 6),
    value     TEXT    NOT NULL,                              -- the output, or the failure as JSON
    PRIMARY KEY (workspace, run)
) STRICT, WITHOUT ROWID;

-- The open run of each workflow and subject: a row is there exactly while its run is open.
CREATE TABLE hapax_open_subjects (
    workspace INTEGER NOT NULL,
    workflow  INTEGER NOT NULL,
    subject   TEXT    NOT NULL,
    run       BLOB    NOT NULL CHECK (length(run) = 16),
    PRIMARY KEY (workspace, workflow, subject)
) STRICT, WITHOUT ROWID;

-- Rows lie in the order they were written, whatever run they belong to, so that one commit of many runs fills few
-- pages; only the narrow index is sorted by run.
CREATE TABLE hapax_steps (
    workspace       INTEGER NOT NULL,
    run             BLOB    NOT NULL CHECK (length(run) = 16),
    generation      INTEGER NOT NULL,
    step            TEXT    NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 10),
    status          INTEGER NOT NULL CHECK (status BETWEEN 0 AND 7),
    attempts        INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    started_version INTEGER NOT NULL,
    changed_version INTEGER NOT NULL CHECK (changed_version >= started_version),
    fence           INTEGER NOT NULL,
    at              INTEGER,                                 -- due at, until, done at, or in doubt since
    value           TEXT,                                    -- the output, or the failure as JSON
    child           BLOB CHECK (child IS NULL OR length(child) = 16),
    UNIQUE (workspace, run, generation, step),
    -- Pending, completed, failed and doubtful steps carry a value; only a running one, or a wait without a timer, has no
    -- instant.
    CHECK ((status = 0 OR status = 3 OR status = 4 OR status = 7) = (value IS NOT NULL)),
    CHECK (CASE status WHEN 1 THEN at IS NULL WHEN 2 THEN 1 ELSE at IS NOT NULL END)
) STRICT;

-- Serves list_doubts: the longest in doubt first. Nearly always empty.
CREATE INDEX hapax_steps_in_doubt ON hapax_steps (at, run, step) WHERE status = 7;

-- The history of a run as a whole; steps are history of their own.
CREATE TABLE hapax_events (
    workspace INTEGER NOT NULL,
    run       BLOB    NOT NULL CHECK (length(run) = 16),
    version   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    fence     INTEGER NOT NULL,
    kind      INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 14),
    note      TEXT,
    PRIMARY KEY (workspace, run, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE hapax_keys (
    workspace     INTEGER NOT NULL,
    kind          INTEGER NOT NULL CHECK (kind = 0),
    key           TEXT    NOT NULL,
    run           BLOB    NOT NULL CHECK (length(run) = 16),
    fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    first_seen_at INTEGER NOT NULL,
    expires_at    INTEGER,                                   -- NULL while its run is open, or for ever
    PRIMARY KEY (workspace, kind, key)
) STRICT, WITHOUT ROWID;

-- Serves purge: expired keys, the longest dead first.
CREATE INDEX hapax_keys_by_expiry ON hapax_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE hapax_promises (
    workspace   INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    run         BLOB    NOT NULL CHECK (length(run) = 16),
    deadline_at INTEGER,
    status      INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
    settled_at  INTEGER,
    value       TEXT,                                        -- the value, or the failure as JSON
    PRIMARY KEY (workspace, id),
    CHECK ((status = 1 OR status = 2) = (settled_at IS NOT NULL) AND (settled_at IS NULL) = (value IS NULL))
) STRICT, WITHOUT ROWID;

-- Serves find_log, continue-as-new and purge: the promises of a run.
CREATE INDEX hapax_promises_of_run ON hapax_promises (workspace, run);

-- Signals that no step has taken yet; a consumed one is deleted.
CREATE TABLE hapax_signals (
    workspace INTEGER NOT NULL,
    run       BLOB    NOT NULL CHECK (length(run) = 16),
    seq       INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    id        TEXT,
    payload   TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (workspace, run, seq)
) STRICT, WITHOUT ROWID;

-- Every signal id a run has seen, so that a resend stays a resend after the signal was consumed.
CREATE TABLE hapax_signal_ids (
    workspace INTEGER NOT NULL,
    run       BLOB    NOT NULL CHECK (length(run) = 16),
    id        TEXT    NOT NULL,
    PRIMARY KEY (workspace, run, id)
) STRICT, WITHOUT ROWID;

-- The journal. Rows are never changed, and deleted only with their run, those of people not even then. A place is never
-- given twice, also not after the last row was deleted: whoever read up to it would miss its second holder.
CREATE TABLE hapax_notes (
    place      INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    run        BLOB    NOT NULL CHECK (length(run) = 16),
    generation INTEGER NOT NULL,
    step       TEXT,
    at         INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    owner      BLOB CHECK (owner IS NULL OR length(owner) = 16),
    actor      TEXT,
    role       INTEGER CHECK (role BETWEEN 0 AND 1),
    body       TEXT    NOT NULL,                             -- what it tells, as JSON
    -- A person has a role.
    CHECK ((actor IS NULL) = (role IS NULL))
) STRICT;

-- Serves list_notes of a run, and purge.
CREATE INDEX hapax_notes_of_run ON hapax_notes (workspace, run);

-- Serves list_notes of what people did: few beside what engines do.
CREATE INDEX hapax_notes_of_people ON hapax_notes (workspace) WHERE actor IS NOT NULL;

-- After-effects. Rows lie in the order they were written, as steps do.
CREATE TABLE hapax_posts (
    workspace  INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    run        BLOB    NOT NULL CHECK (length(run) = 16),
    target     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL CHECK (attempts >= 0),
    status     INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
    at         INTEGER NOT NULL,                             -- due at, claimed until, delivered at, or given up at
    owner      BLOB,
    failure    TEXT,                                         -- why the last attempt failed, as JSON
    payload    TEXT    NOT NULL,
    UNIQUE (workspace, id),
    -- Who has it in hand is known exactly while somebody has.
    CHECK ((status = 1) = (owner IS NOT NULL)),
    CHECK (owner IS NULL OR length(owner) = 16)
) STRICT;

-- Serves claim_posts: what is to be delivered to one target, the longest due first; and when the next one will be.
CREATE INDEX hapax_posts_due ON hapax_posts (target, at, id) WHERE status < 2;

-- Serves list_posts by DUE, CLAIMED or DEAD: few beside the delivered ones. A claim does not touch it.
CREATE INDEX hapax_posts_undelivered ON hapax_posts (workspace, id) WHERE status <> 2;

-- Serves purge: the after-effects of a run.
CREATE INDEX hapax_posts_of_run ON hapax_posts (workspace, run);

-- A run's head as the model has it; rows.rs reads these columns by place.
CREATE VIEW hapax_heads AS
SELECT
    r.id               AS id,
    s.name             AS workspace_name,
    w.name             AS workflow_name,
    r.workflow_version AS workflow_version,
    r.version          AS version,
    r.fence            AS fence,
    r.status           AS status,
    r.wake_at          AS wake_at,
    r.lease_owner      AS lease_owner,
    r.arrivals         AS arrivals,
    r.generation       AS generation,
    r.asked            AS asked,
    r.stalls           AS stalls,
    r.priority         AS priority,
    r.started_at       AS started_at,
    r.changed_at       AS changed_at,
    r.closed_at        AS closed_at,
    f.created_at       AS created_at,
    f.key              AS key,
    f.fingerprint      AS fingerprint,
    f.keep_key_for_ms  AS keep_key_for_ms,
    f.release_on_failure AS release_on_failure,
    f.subject          AS subject,
    f.deadline_at      AS deadline_at,
    f.parent           AS parent,
    f.parent_step      AS parent_step,
    f.cancel_with_parent AS cancel_with_parent,
    r.token            AS token,
    r.workspace        AS workspace
FROM hapax_runs AS r
    CROSS JOIN hapax_run_facts  AS f ON f.id = r.id
    CROSS JOIN hapax_workflows  AS w ON w.id = r.workflow
    CROSS JOIN hapax_workspaces AS s ON s.id = r.workspace;

PRAGMA user_version = 1;
