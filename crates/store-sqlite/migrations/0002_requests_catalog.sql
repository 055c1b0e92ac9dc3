-- Requests under their keys, how keys are used, and what is set up in workspaces.

-- How often a key came again. Numbers that are nought take no room in a row.
ALTER TABLE hapax_keys ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hapax_keys ADD COLUMN conflicts INTEGER NOT NULL DEFAULT 0;

-- Requests under their keys. Rows lie in the order they came; their answers lie beside them, so that to hold a request or to count
-- its uses writes no answer again.
CREATE TABLE hapax_requests (
    number        INTEGER PRIMARY KEY,
    workspace     INTEGER NOT NULL,
    caller        TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    id            BLOB    NOT NULL CHECK (length(id) = 16),
    fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    first_seen_at INTEGER NOT NULL,
    status        INTEGER NOT NULL CHECK (status BETWEEN 0 AND 1),
    token         INTEGER,                                   -- marks who works on it
    until         INTEGER,                                   -- until when it counts as worked on
    answered_at   INTEGER,
    expires_at    INTEGER,                                   -- until when the answer is given
    free_at       INTEGER,                                   -- from when on the key is free
    replays       INTEGER NOT NULL DEFAULT 0,
    conflicts     INTEGER NOT NULL DEFAULT 0,
    method        TEXT    NOT NULL,
    path          TEXT    NOT NULL,
    outline       TEXT    NOT NULL,                          -- of the body, as JSON
    UNIQUE (workspace, caller, key),
    -- Somebody works on what is in flight; only an answer expires.
    CHECK ((status = 0) = (token IS NOT NULL) AND (status = 0) = (until IS NOT NULL)),
    CHECK ((status = 1) = (answered_at IS NOT NULL) AND (status = 1) = (expires_at IS NOT NULL)),
    CHECK ((status = 1) = (free_at IS NOT NULL) AND (free_at IS NULL OR free_at >= expires_at))
) STRICT;

-- Serves purge_requests: keys that are free, the longest free first.
CREATE INDEX hapax_requests_by_free_at ON hapax_requests (free_at) WHERE free_at IS NOT NULL;

-- Serves opening: the requests that a process before this one had in hand. Nearly always short.
CREATE INDEX hapax_requests_held ON hapax_requests (first_seen_at) WHERE status = 0;

-- Serves find_oldest_request. Rows are added at its end.
CREATE INDEX hapax_requests_by_age ON hapax_requests (first_seen_at);

-- The answer of each request that has one, to be given again byte for byte.
CREATE TABLE hapax_answers (
    request INTEGER PRIMARY KEY,                             -- its number
    status  INTEGER NOT NULL CHECK (status BETWEEN 0 AND 65535),
    headers TEXT    NOT NULL,                                -- pairs of names and values, as JSON
    body    BLOB                                             -- NULL if it was larger than what is kept
) STRICT;

-- What is set up rather than run. Few, and rarely written.
CREATE TABLE hapax_items (
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
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

-- Serves list_items of one workspace.
CREATE INDEX hapax_items_of_workspace ON hapax_items (workspace, kind, id);

-- Serves list_items by changed_since: who keeps items at hand asks for the changed ones again and again.
CREATE INDEX hapax_items_by_change ON hapax_items (kind, changed_at);

PRAGMA user_version = 2;
