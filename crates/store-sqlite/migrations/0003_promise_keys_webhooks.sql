-- Promises by business key, promises that stand alone, settlements that come early, and webhooks that came in.
--
-- SQLite cannot change a CHECK: tables whose rules grow are made anew, with what they hold. No view, trigger or foreign key
-- mentions any of them.

-- One table of keys for runs (kind 0) and promises (kind 1); the same text may name one of each.
ALTER TABLE hapax_keys RENAME TO hapax_keys_before;

CREATE TABLE hapax_keys (
    workspace     INTEGER NOT NULL,
    kind          INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 1),
    key           TEXT    NOT NULL,
    run           BLOB CHECK (run IS NULL OR length(run) = 16),
    promise       TEXT,
    fingerprint   BLOB CHECK (fingerprint IS NULL OR length(fingerprint) = 32),
    first_seen_at INTEGER NOT NULL,
    expires_at    INTEGER,                                   -- NULL while what it names is open, or for ever
    replays       INTEGER NOT NULL DEFAULT 0,
    conflicts     INTEGER NOT NULL DEFAULT 0,
    -- Serves the lookup of promises by key as well: it begins with the workspace, and ends with the key.
    PRIMARY KEY (workspace, kind, key),
    -- A key of a run names exactly a run, and what sameness means. One of a promise names exactly a promise, or nothing yet: then it is
    -- claimed for one that is still to be made, and the claim ends some time.
    CHECK ((kind = 0) = (run IS NOT NULL) AND (kind = 0) = (fingerprint IS NOT NULL)),
    CHECK (run IS NULL OR promise IS NULL),
    CHECK (run IS NOT NULL OR promise IS NOT NULL OR expires_at IS NOT NULL)
) STRICT, WITHOUT ROWID;

INSERT INTO hapax_keys (workspace, kind, key, run, fingerprint, first_seen_at, expires_at, replays, conflicts)
SELECT workspace, kind, key, run, fingerprint, first_seen_at, expires_at, replays, conflicts FROM hapax_keys_before;

DROP TABLE hapax_keys_before;

-- Serves purge: expired keys, the longest dead first.
CREATE INDEX hapax_keys_by_expiry ON hapax_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Serves the end of a promise: its key goes with it.
CREATE INDEX hapax_keys_by_promise ON hapax_keys (workspace, promise) WHERE promise IS NOT NULL;

-- Promises that stand alone have the run of sixteen noughts.
ALTER TABLE hapax_promises RENAME TO hapax_promises_before;

CREATE TABLE hapax_promises (
    workspace       INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    run             BLOB    NOT NULL CHECK (length(run) = 16),
    created_at      INTEGER NOT NULL,
    deadline_at     INTEGER,
    status          INTEGER NOT NULL CHECK (status BETWEEN 0 AND 5),
    settled_at      INTEGER,
    value           TEXT,                                    -- the value, the failure as JSON, or the promise that has the key
    key             TEXT,                                    -- its business key
    keep_key_for_ms INTEGER,
    create_key      TEXT,                                    -- what its maker knows the making by
    about           TEXT,                                    -- what its maker said, as JSON
    complete_key    TEXT,                                    -- what its settler knows the settling by
    said            TEXT,                                    -- what its settler said, as JSON
    token           INTEGER,                                 -- marks the making of one that stands alone
    over_at         INTEGER AS (CASE status WHEN 5 THEN created_at ELSE coalesce(settled_at, deadline_at) END) VIRTUAL,
    PRIMARY KEY (workspace, id),
    -- Resolved, rejected and cancelled ones were settled some time; these, and one whose key was taken, carry a value.
    CHECK ((status = 1 OR status = 2 OR status = 4) = (settled_at IS NOT NULL)),
    CHECK ((status = 0 OR status = 3) = (value IS NULL)),
    CHECK ((key IS NULL) = (keep_key_for_ms IS NULL)),
    -- Only one that was settled has words of a settler.
    CHECK (settled_at IS NOT NULL OR (complete_key IS NULL AND said IS NULL))
) STRICT, WITHOUT ROWID;

-- When a promise was made was not kept: not before its run.
INSERT INTO hapax_promises (workspace, id, run, created_at, deadline_at, status, settled_at, value)
SELECT p.workspace, p.id, p.run, coalesce(f.created_at, 0), p.deadline_at, p.status, p.settled_at, p.value
FROM hapax_promises_before AS p LEFT JOIN hapax_run_facts AS f ON f.id = p.run;

DROP TABLE hapax_promises_before;

-- Serves find_log, continue-as-new, purge and list_promises: the promises of a run, in the order of their ids.
CREATE INDEX hapax_promises_of_run ON hapax_promises (workspace, run);

-- Serves purge_promises: those that stand alone, the longest over first. Promises of runs do not touch it.
CREATE INDEX hapax_promises_alone ON hapax_promises (over_at)
    WHERE run = x'00000000000000000000000000000000' AND over_at IS NOT NULL;

-- Runs that wait for promises that stand alone.
CREATE TABLE hapax_promise_waiters (
    workspace INTEGER NOT NULL,
    promise   TEXT    NOT NULL,
    run       BLOB    NOT NULL CHECK (length(run) = 16),
    -- Serves settle_promise: whom to wake.
    PRIMARY KEY (workspace, promise, run)
) STRICT, WITHOUT ROWID;

-- Serves find_log, continue-as-new and purge: what a run waits for.
CREATE INDEX hapax_promise_waiters_of_run ON hapax_promise_waiters (workspace, run);

-- Settlements that came before their promise. Beside each lies a key of kind 1 that names nothing yet and expires with it.
CREATE TABLE hapax_early_settlements (
    workspace    INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    status       INTEGER NOT NULL CHECK (status = 1 OR status = 2 OR status = 4),
    value        TEXT    NOT NULL,                           -- the value, or the failure as JSON
    complete_key TEXT,
    said         TEXT,
    at           INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;

-- Digests of the tokens by which strangers may settle a promise; the tokens themselves are kept nowhere.
CREATE TABLE hapax_settle_tokens (
    digest     BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    workspace  INTEGER NOT NULL,
    promise    TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Serves the end of a promise: its tokens go with it.
CREATE INDEX hapax_settle_tokens_of_promise ON hapax_settle_tokens (workspace, promise);

-- Webhooks that came in. A place is never given twice, as in the journal.
CREATE TABLE hapax_hooks (
    place       INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   INTEGER NOT NULL,
    source      TEXT    NOT NULL,
    event       TEXT    NOT NULL,                            -- what the provider calls it
    received_at INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    duplicates  INTEGER NOT NULL CHECK (duplicates >= 0),
    attempts    INTEGER NOT NULL CHECK (attempts >= 0),
    status      INTEGER NOT NULL CHECK (status BETWEEN 0 AND 4),
    outcome     TEXT,                                        -- what was done, or why not, as JSON
    headers     TEXT    NOT NULL,                            -- as JSON
    body        BLOB    NOT NULL,
    -- Each event of a source is taken in once; serves find_hook as well.
    UNIQUE (workspace, source, event)
) STRICT;

-- Serves list_inbound_events: those of a workspace, newest first.
CREATE INDEX hapax_hooks_of_workspace ON hapax_hooks (workspace);

-- Serves list_unprocessed_events. Nearly always empty.
CREATE INDEX hapax_hooks_unprocessed ON hapax_hooks (received_at) WHERE status = 0;

-- Serves purge_inbound_events: what has been processed, the oldest first.
CREATE INDEX hapax_hooks_processed ON hapax_hooks (received_at) WHERE status > 0;

-- Sources of webhooks and subscriptions are set up, too.
ALTER TABLE hapax_items RENAME TO hapax_items_before;

CREATE TABLE hapax_items (
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 5),
    id         TEXT    NOT NULL,
    workspace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    PRIMARY KEY (kind, id),
    -- Serves find_named_item as well.
    UNIQUE (workspace, kind, name)
) STRICT;

INSERT INTO hapax_items (kind, id, workspace, name, version, created_at, changed_at, body)
SELECT kind, id, workspace, name, version, created_at, changed_at, body FROM hapax_items_before;

DROP TABLE hapax_items_before;

-- Serves list_items of one workspace.
CREATE INDEX hapax_items_of_workspace ON hapax_items (workspace, kind, id);

-- Serves list_items by changed_since: who keeps items at hand asks for the changed ones again and again.
CREATE INDEX hapax_items_by_change ON hapax_items (kind, changed_at);

PRAGMA user_version = 3;
