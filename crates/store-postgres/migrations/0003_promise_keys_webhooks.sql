-- Promises by business key, promises that stand alone, settlements that come early, and webhooks that came in.
--
-- Only adds, and lets in what was refused: the version before goes on beside it. It does not know of promises' keys, so that one it
-- settles keeps its key until the promise goes.
-- The new CHECKs are not asked of rows that are there: those obeyed stricter ones.

-- One table for the keys of runs and of promises. A key that is claimed for a promise that is still to be made names nothing yet; else
-- it names exactly one thing, of its kind. Keys of promises are found by the primary key (S4.12).
ALTER TABLE keys
    ADD COLUMN promise text COLLATE "C",
    ALTER COLUMN run DROP NOT NULL,
    ALTER COLUMN fingerprint DROP NOT NULL,
    DROP CONSTRAINT keys_kind_check,
    ADD CONSTRAINT keys_kind_check CHECK (kind BETWEEN 0 AND 1) NOT VALID,
    ADD CONSTRAINT keys_run_check CHECK ((kind = 0) = (run IS NOT NULL) AND (run IS NULL) = (fingerprint IS NULL)) NOT VALID,
    -- What is claimed for a promise is not claimed for ever.
    ADD CONSTRAINT keys_promise_check CHECK (
        CASE kind WHEN 0 THEN promise IS NULL ELSE promise IS NOT NULL OR expires_at IS NOT NULL END) NOT VALID;

-- Serves the end of a promise: its key goes with it (S4.13).
CREATE INDEX keys_of_promise ON keys (workspace, promise) WHERE promise IS NOT NULL;

ALTER TABLE promises
    ADD COLUMN created_at      int8 NOT NULL DEFAULT 0,
    ADD COLUMN keep_key_for_ms int8,                         -- how long the key names it once it is over
    ADD COLUMN token           int8,                         -- marks the making of one that stands alone
    ADD COLUMN key             text COLLATE "C",
    ADD COLUMN create_key      text COLLATE "C",             -- what its maker knows the making by
    ADD COLUMN complete_key    text COLLATE "C",             -- what its settler knows the settling by
    ADD COLUMN about           text COLLATE "C",             -- what its maker said about it
    ADD COLUMN said            text COLLATE "C",             -- what its settler said, word for word
    DROP CONSTRAINT promises_status_check,
    DROP CONSTRAINT promises_check,
    ADD CONSTRAINT promises_status_check CHECK (status BETWEEN 0 AND 5) NOT VALID,
    -- Settled and dated are the same thing. A settled one has a value; one that has lost its key names its holder there.
    ADD CONSTRAINT promises_settled_check CHECK (
        (status IN (1, 2, 4)) = (settled_at IS NOT NULL) AND (status IN (1, 2, 4, 5)) = (value IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT promises_key_check CHECK ((key IS NULL) = (keep_key_for_ms IS NULL)) NOT VALID;

-- Those that stand alone have no run: their `run` is nil.
-- Serves list_promises of those that stand alone.
CREATE INDEX promises_alone ON promises (workspace, id) WHERE run = '00000000-0000-0000-0000-000000000000';

-- Serves purge_promises: those that stand alone, the longest over first.
CREATE INDEX promises_alone_over ON promises ((CASE status WHEN 5 THEN created_at ELSE coalesce(settled_at, deadline_at) END))
    WHERE run = '00000000-0000-0000-0000-000000000000';

-- Runs that wait for promises that stand alone. Serves settlements by its primary key.
CREATE TABLE promise_waiters (
    workspace int4 NOT NULL,
    run       uuid NOT NULL,
    promise   text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, promise, run)
);

-- Serves find_log, continue-as-new and purge: what a run waits for.
CREATE INDEX promise_waiters_of_run ON promise_waiters (workspace, run);

-- Settlements that came before their promise, each under a key that is claimed for it and expires with it.
CREATE TABLE early_settlements (
    workspace    int4 NOT NULL,
    at           int8 NOT NULL,
    expires_at   int8 NOT NULL,
    status       int2 NOT NULL CHECK (status IN (1, 2, 4)),
    key          text COLLATE "C" NOT NULL,
    value        text COLLATE "C" NOT NULL,                  -- the value, or the failure as JSON
    complete_key text COLLATE "C",
    said         text COLLATE "C",
    PRIMARY KEY (workspace, key)
);

-- Tokens by which strangers settle one promise. A stranger says no workspace, so that this key alone is not led by it.
CREATE TABLE settle_tokens (
    workspace  int4 NOT NULL,
    expires_at int8 NOT NULL,
    digest     bytea NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    promise    text COLLATE "C" NOT NULL
);

-- Serves the end of a promise: its tokens go with it.
CREATE INDEX settle_tokens_of_promise ON settle_tokens (workspace, promise);

-- Webhooks that came in. Serves list_inbound_events, the newest first, by its primary key.
CREATE TABLE hooks (
    workspace   int4 NOT NULL,
    attempts    int4 NOT NULL,
    place       int8 NOT NULL GENERATED ALWAYS AS IDENTITY,  -- never given twice
    received_at int8 NOT NULL,
    changed_at  int8 NOT NULL,
    duplicates  int8 NOT NULL,
    status      int2 NOT NULL CHECK (status BETWEEN 0 AND 4),
    source      text COLLATE "C" NOT NULL,
    event       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C",                            -- what was done, or why it was not, as JSON
    headers     text COLLATE "C" NOT NULL,                   -- as JSON
    body        bytea NOT NULL,
    PRIMARY KEY (workspace, place),
    -- Serves receive_hook and find_hook as well.
    UNIQUE (workspace, source, event)
) WITH (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- Serves list_unprocessed_events: nearly always empty.
CREATE INDEX hooks_unprocessed ON hooks (received_at, place) WHERE status = 0;

-- Serves purge_inbound_events: the oldest first.
CREATE INDEX hooks_processed ON hooks (received_at, place) WHERE status <> 0;

-- Two more kinds of items: sources of webhooks, and subscriptions.
ALTER TABLE items
    DROP CONSTRAINT items_kind_check,
    ADD CONSTRAINT items_kind_check CHECK (kind BETWEEN 0 AND 5) NOT VALID;
