-- Runs, their steps, their history, and what arrives for them.
--
-- Instants are milliseconds since the Unix epoch, payloads are JSON text kept byte for byte. Enums are small numbers; codes.rs
-- spells them out, and the CHECKs below hold the same rules as the enums.
-- Every primary and unique key is led by the workspace, so that the tables can be spread by it; so no constraint says that an id
-- is in one workspace only, and nothing relies on it (docs/decisions/0005). Workspaces and workflows
-- are dictionaries: small, never changed, the same everywhere.
-- No foreign keys: each would cost the hot path a lookup for a rule that every write obeys anyway.
-- Texts are compared byte by byte (collation "C"), as the model does.

-- Which store this is: one row, never changed. A start in a transaction of the user's asks whether it is on the same one.
CREATE TABLE identity (
    one int2 NOT NULL DEFAULT 1 PRIMARY KEY CHECK (one = 1),
    id  uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO identity DEFAULT VALUES;

-- Names are long and few; rows carry a small number instead. Rows here are never changed or deleted.
CREATE TABLE workspaces (
    id   int4 NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE workflows (
    id   int4 NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The hot row: what changes while a run is driven, and what a claim looks at. Kept narrow, since an update writes all of it.
-- Half of each page is left free: a step then finds room beside the row it replaces and touches no index (a HOT update).
CREATE TABLE runs (
    workspace        int4 NOT NULL,
    workflow         int4 NOT NULL,
    id               uuid NOT NULL,
    version          int8 NOT NULL,
    token            int8,                                   -- marks the last write under a lease
    changed_at       int8 NOT NULL,
    fence            int8 NOT NULL,
    wake_at          int8,                                   -- due_at, the end of the lease, or the timer
    arrivals         int8 NOT NULL,
    started_at       int8,
    closed_at        int8,
    lease_owner      uuid,
    workflow_version int4 NOT NULL,
    stalls           int4 NOT NULL,
    generation       int4 NOT NULL,
    status           int2 NOT NULL CHECK (status BETWEEN 0 AND 6),
    asked            int2 NOT NULL CHECK (asked BETWEEN 0 AND 2),
    priority         int2 NOT NULL CHECK (priority BETWEEN 0 AND 2),
    has_children     bool NOT NULL DEFAULT false,            -- whether its end must look for children
    PRIMARY KEY (workspace, id),
    -- Only a running run is leased, and it was started.
    CHECK (lease_owner IS NULL OR (status = 1 AND started_at IS NOT NULL)),
    -- Ended and dated are the same thing.
    CHECK ((status >= 4) = (closed_at IS NOT NULL)),
    -- Pending and running runs are due some time; paused and ended ones never by time alone.
    CHECK (CASE WHEN status IN (0, 1) THEN wake_at IS NOT NULL WHEN status = 2 THEN true ELSE wake_at IS NULL END)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- Serves claim_runs: due runs of one workflow and priority, the longest due first; and when the next one will be.
CREATE INDEX runs_due ON runs (workflow, workflow_version, priority, wake_at, id) WHERE wake_at IS NOT NULL;

-- Serves claim_runs with a long backlog: from workspace to workspace. Driven runs are not in it, so that it costs them nothing.
CREATE INDEX runs_due_by_workspace ON runs (workflow, workflow_version, priority, workspace, wake_at, id)
    WHERE wake_at IS NOT NULL AND lease_owner IS NULL;

-- Serves list_runs by PENDING, RUNNING or WAITING: open runs are few beside the ended ones.
CREATE INDEX runs_open ON runs (workspace, id) WHERE closed_at IS NULL;

-- Serves list_runs by PAUSED, FAILED or CANCELLED: the ones people look for, and few.
CREATE INDEX runs_set_aside ON runs (workspace, status, id) WHERE status IN (3, 5, 6);

-- What never changes about a run, and its input, which only continue-as-new replaces.
CREATE TABLE run_facts (
    workspace          int4 NOT NULL,
    id                 uuid NOT NULL,
    created_at         int8 NOT NULL,
    keep_key_for_ms    int8,                                 -- NULL is for ever
    deadline_at        int8,
    parent             uuid,
    release_on_failure bool NOT NULL,
    cancel_with_parent bool,
    key                text COLLATE "C",
    fingerprint        bytea,
    subject            text COLLATE "C",
    parent_step        text COLLATE "C",
    input              text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, id),
    CHECK ((key IS NULL) = (fingerprint IS NULL)),
    CHECK (fingerprint IS NULL OR length(fingerprint) = 32),
    CHECK ((parent IS NULL) = (parent_step IS NULL) AND (parent IS NULL) = (cancel_with_parent IS NULL))
);

-- Serves starts, which refuse the id of a run of another workspace if they see it; and purge and the list over all workspaces, which
-- walk in the order of ids.
CREATE INDEX run_facts_by_id ON run_facts (id);

-- Serves the end of a parent: the children that are to be cancelled with it.
CREATE INDEX run_facts_children ON run_facts (workspace, parent) WHERE cancel_with_parent;

-- What a run ended with; gone again when a failed run is retried.
CREATE TABLE run_results (
    workspace int4 NOT NULL,
    run       uuid NOT NULL,
    status    int2 NOT NULL CHECK (status BETWEEN 4 AND 6),
    value     text COLLATE "C" NOT NULL,                     -- the output, or the failure as JSON
    PRIMARY KEY (workspace, run)
);

-- The open run of each workflow and subject: a row is there exactly while its run is open.
CREATE TABLE open_subjects (
    workspace int4 NOT NULL,
    workflow  int4 NOT NULL,
    subject   text COLLATE "C" NOT NULL,
    run       uuid NOT NULL,
    PRIMARY KEY (workspace, workflow, subject)
);

CREATE TABLE steps (
    workspace       int4 NOT NULL,
    generation      int4 NOT NULL,
    run             uuid NOT NULL,
    started_at      int8 NOT NULL,
    started_version int8 NOT NULL,
    changed_version int8 NOT NULL CHECK (changed_version >= started_version),
    fence           int8 NOT NULL,
    at              int8,                                    -- due at, until, done at, or in doubt since
    child           uuid,
    attempts        int4 NOT NULL,
    kind            int2 NOT NULL CHECK (kind BETWEEN 0 AND 10),
    status          int2 NOT NULL CHECK (status BETWEEN 0 AND 7),
    step            text COLLATE "C" NOT NULL,
    value           text COLLATE "C",                        -- the output, or the failure as JSON
    PRIMARY KEY (workspace, run, generation, step),
    -- Pending, completed, failed and doubtful steps carry a value; only a running one, or a wait without a timer, has no instant.
    CHECK ((status IN (0, 3, 4, 7)) = (value IS NOT NULL)),
    CHECK (CASE status WHEN 1 THEN at IS NULL WHEN 2 THEN true ELSE at IS NOT NULL END)
);

-- Serves list_doubts: the longest in doubt first. Nearly always empty.
CREATE INDEX steps_in_doubt ON steps (at, run, step) WHERE status = 7;

-- The history of a run as a whole; steps are history of their own.
CREATE TABLE events (
    workspace int4 NOT NULL,
    run       uuid NOT NULL,
    version   int8 NOT NULL,
    at        int8 NOT NULL,
    fence     int8 NOT NULL,
    kind      int2 NOT NULL CHECK (kind BETWEEN 0 AND 14),
    note      text COLLATE "C",
    PRIMARY KEY (workspace, run, version)
);

CREATE TABLE keys (
    workspace     int4 NOT NULL,
    kind          int2 NOT NULL CHECK (kind = 0),
    run           uuid NOT NULL,
    first_seen_at int8 NOT NULL,
    expires_at    int8,                                      -- NULL while its run is open, or for ever
    key           text COLLATE "C" NOT NULL,
    fingerprint   bytea NOT NULL CHECK (length(fingerprint) = 32),
    PRIMARY KEY (workspace, kind, key)
);

-- Serves purge: expired keys, the longest dead first.
CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE promises (
    workspace   int4 NOT NULL,
    run         uuid NOT NULL,
    deadline_at int8,
    settled_at  int8,
    status      int2 NOT NULL CHECK (status BETWEEN 0 AND 3),
    id          text COLLATE "C" NOT NULL,
    value       text COLLATE "C",                            -- the value, or the failure as JSON
    PRIMARY KEY (workspace, id),
    CHECK ((status IN (1, 2)) = (settled_at IS NOT NULL) AND (settled_at IS NULL) = (value IS NULL))
);

-- Serves find_log, continue-as-new and purge: the promises of a run.
CREATE INDEX promises_of_run ON promises (workspace, run);

-- Signals that no step has taken yet; a consumed one is deleted.
CREATE TABLE signals (
    workspace int4 NOT NULL,
    run       uuid NOT NULL,
    seq       int8 NOT NULL,
    at        int8 NOT NULL,
    name      text COLLATE "C" NOT NULL,
    id        text COLLATE "C",
    payload   text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, run, seq)
);

-- Every signal id a run has seen, so that a resend stays a resend after the signal was consumed.
CREATE TABLE signal_ids (
    workspace int4 NOT NULL,
    run       uuid NOT NULL,
    id        text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, run, id)
);

-- The journal. Rows are never changed, and deleted only with their run, those of people not even then.
CREATE TABLE notes (
    workspace  int4 NOT NULL,
    generation int4 NOT NULL,
    place      int8 NOT NULL GENERATED ALWAYS AS IDENTITY,   -- never given twice
    run        uuid NOT NULL,
    at         int8 NOT NULL,
    fence      int8 NOT NULL,
    owner      uuid,
    role       int2 CHECK (role BETWEEN 0 AND 1),
    step       text COLLATE "C",
    actor      text COLLATE "C",
    body       text COLLATE "C" NOT NULL,                    -- what it tells, as JSON
    PRIMARY KEY (workspace, place),
    -- A person has a role.
    CHECK ((actor IS NULL) = (role IS NULL))
);

-- Serves list_notes of a run, and purge.
CREATE INDEX notes_of_run ON notes (workspace, run, place);

-- Serves list_notes of what people did: few beside what engines do.
CREATE INDEX notes_of_people ON notes (workspace, place) WHERE actor IS NOT NULL;

-- After-effects. Each is claimed and finished within moments, so that its first versions are soon to be cleared away.
CREATE TABLE posts (
    workspace  int4 NOT NULL,
    attempts   int4 NOT NULL,
    run        uuid NOT NULL,
    created_at int8 NOT NULL,
    at         int8 NOT NULL,                                -- due at, claimed until, delivered at, or given up at
    owner      uuid,
    status     int2 NOT NULL CHECK (status BETWEEN 0 AND 3),
    id         text COLLATE "C" NOT NULL,
    target     text COLLATE "C" NOT NULL,
    failure    text COLLATE "C",                             -- why the last attempt failed, as JSON
    payload    text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, id),
    -- Who has it in hand is known exactly while somebody has.
    CHECK ((status = 1) = (owner IS NOT NULL))
) WITH (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- Serves claim_posts: what is to be delivered to one target, the longest due first; and when the next one will be.
CREATE INDEX posts_due ON posts (target, at, id) WHERE status < 2;

-- Serves list_posts by DUE, CLAIMED or DEAD: few beside the delivered ones.
CREATE INDEX posts_undelivered ON posts (workspace, id) WHERE status <> 2;

-- Serves purge: the after-effects of a run.
CREATE INDEX posts_of_run ON posts (workspace, run);

-- A run's head as the model has it; rows.rs reads these columns by place, so a later version makes a view of its own.
CREATE VIEW heads AS
SELECT
    r.id,
    s.name AS workspace_name,
    w.name AS workflow_name,
    r.workflow_version,
    r.version,
    r.fence,
    r.status,
    r.wake_at,
    r.lease_owner,
    r.arrivals,
    r.generation,
    r.asked,
    r.stalls,
    r.priority,
    r.started_at,
    r.changed_at,
    r.closed_at,
    f.created_at,
    f.key,
    f.fingerprint,
    f.keep_key_for_ms,
    f.release_on_failure,
    f.subject,
    f.deadline_at,
    f.parent,
    f.parent_step,
    f.cancel_with_parent,
    r.token,
    r.has_children,
    r.workspace
FROM runs AS r
    JOIN run_facts AS f ON f.workspace = r.workspace AND f.id = r.id
    JOIN workflows AS w ON w.id = r.workflow
    JOIN workspaces AS s ON s.id = r.workspace;
