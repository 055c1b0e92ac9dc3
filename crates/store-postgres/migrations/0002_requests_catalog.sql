-- Requests under their keys, how keys are used, and what is set up in workspaces.
--
-- Only adds: the version before goes on beside it. It does not know of the counts, so that a key that it gives to another run is not
-- counted anew.

-- How often a key came again.
ALTER TABLE keys
    ADD COLUMN replays   int8 NOT NULL DEFAULT 0,
    ADD COLUMN conflicts int8 NOT NULL DEFAULT 0;

-- Requests under their keys, with their answers: those that are long are kept beside the row by PostgreSQL itself, and not written
-- again when the row is.
CREATE TABLE requests (
    workspace     int4 NOT NULL,
    answer_status int4 CHECK (answer_status BETWEEN 0 AND 65535),
    id            uuid NOT NULL,
    first_seen_at int8 NOT NULL,
    token         int8,                                      -- marks who works on it
    until         int8,                                      -- until when it counts as worked on
    answered_at   int8,
    expires_at    int8,                                      -- until when the answer is given
    free_at       int8,                                      -- from when on the key is free
    replays       int8 NOT NULL DEFAULT 0,
    conflicts     int8 NOT NULL DEFAULT 0,
    status        int2 NOT NULL CHECK (status BETWEEN 0 AND 1),
    caller        text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    fingerprint   bytea NOT NULL CHECK (length(fingerprint) = 32),
    method        text COLLATE "C" NOT NULL,
    path          text COLLATE "C" NOT NULL,
    outline       text COLLATE "C" NOT NULL,                 -- of the body, as JSON
    headers       text COLLATE "C",                          -- of the answer: pairs of names and values, as JSON
    body          bytea,                                     -- of the answer; NULL if it was larger than what is kept
    PRIMARY KEY (workspace, caller, key),
    -- Somebody works on what is in flight; only an answer expires.
    CHECK ((status = 0) = (token IS NOT NULL) AND (status = 0) = (until IS NOT NULL)),
    CHECK ((status = 1) = (answered_at IS NOT NULL) AND (status = 1) = (expires_at IS NOT NULL)),
    CHECK ((status = 1) = (free_at IS NOT NULL) AND (free_at IS NULL OR free_at >= expires_at)),
    CHECK ((status = 1) = (answer_status IS NOT NULL) AND (status = 1) = (headers IS NOT NULL)),
    CHECK (status = 1 OR body IS NULL)
) WITH (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- Serves purge_requests: keys that are free, the longest free first.
CREATE INDEX requests_by_free_at ON requests (free_at) WHERE free_at IS NOT NULL;

-- Serves find_oldest_request. Rows are added at its end.
CREATE INDEX requests_by_age ON requests (first_seen_at);

-- What is set up rather than run. Few, rarely written, and known by their ids in the whole store, so the same everywhere like
-- workspaces and workflows.
CREATE TABLE items (
    workspace  int4 NOT NULL,
    kind       int2 NOT NULL CHECK (kind BETWEEN 0 AND 3),
    version    int8 NOT NULL CHECK (version >= 1),
    created_at int8 NOT NULL,
    changed_at int8 NOT NULL,
    id         text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    body       text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, id),
    -- Serves find_named_item as well.
    UNIQUE (workspace, kind, name)
);

-- Serves list_items of one workspace.
CREATE INDEX items_of_workspace ON items (workspace, kind, id);

-- Serves list_items by changed_since: who keeps items at hand asks for the changed ones again and again.
CREATE INDEX items_by_change ON items (kind, changed_at);
