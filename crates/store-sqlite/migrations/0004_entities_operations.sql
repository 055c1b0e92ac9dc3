-- Entities, the operations that move them, and what is noted about them.
--
-- SQLite cannot change a CHECK: the table of items, whose rules grow, is made anew, with what it holds.

-- Entities that live here; those in tables of the user's have no row.
CREATE TABLE hapax_entities (
    workspace  INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    data       TEXT    NOT NULL,                             -- a JSON object
    -- Serves list_entities as well: those of a kind, in the order of their ids.
    PRIMARY KEY (workspace, kind, id)
) STRICT, WITHOUT ROWID;

-- Serves list_entities of one status.
CREATE INDEX hapax_entities_by_status ON hapax_entities (workspace, kind, status, id);

-- Requested transitions. Ids sort by the time of the request, so the newest are together at the end.
CREATE TABLE hapax_operations (
    workspace    INTEGER NOT NULL,
    id           BLOB    NOT NULL CHECK (length(id) = 16),
    kind         TEXT    NOT NULL,
    entity       TEXT    NOT NULL,
    home         TEXT,                                       -- the table of the user's as JSON; NULL if the entity lives here
    workflow     TEXT    NOT NULL,
    module       TEXT    NOT NULL,
    step         TEXT    NOT NULL,
    requester    TEXT,
    actor        TEXT,
    role         INTEGER CHECK (role BETWEEN 0 AND 1),
    key          TEXT,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    from_status  TEXT    NOT NULL,
    to_status    TEXT    NOT NULL,
    claim_into   TEXT,
    revert_to    TEXT,
    recovery     INTEGER NOT NULL CHECK (recovery BETWEEN 0 AND 1),
    irreversible INTEGER NOT NULL CHECK (irreversible BETWEEN 0 AND 1),
    run          BLOB CHECK (run IS NULL OR length(run) = 16),
    version      INTEGER NOT NULL CHECK (version >= 0),      -- the entity's, after the claim
    attempt      INTEGER NOT NULL CHECK (attempt >= 1),
    owner        BLOB    NOT NULL CHECK (length(owner) = 16),
    began_at     INTEGER NOT NULL,
    status       INTEGER NOT NULL CHECK (status BETWEEN 0 AND 5),
    at           INTEGER NOT NULL,                           -- last heard of, in doubt since, or ended
    value        TEXT,                                       -- the result, or the failure as JSON
    input        TEXT    NOT NULL,
    -- Serves list_operations as well: those of a workspace, newest first.
    PRIMARY KEY (workspace, id),
    CHECK ((claim_into IS NULL) = (revert_to IS NULL)),
    CHECK ((actor IS NULL) = (role IS NULL)),
    -- What is done has a result; what was rejected or failed says why.
    CHECK ((status = 1 OR status = 2 OR status = 3) = (value IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- At most one operation per key; serves find_keyed_operation.
CREATE UNIQUE INDEX hapax_operations_by_key ON hapax_operations (workspace, key) WHERE key IS NOT NULL;

-- At most one operation holds an entity, whatever the code above this believes; serves begin_operation and revert_strays.
CREATE UNIQUE INDEX hapax_operations_holding ON hapax_operations (kind, entity, workspace)
    WHERE claim_into IS NOT NULL AND (status = 0 OR status = 5);

-- Serves list_stale_operations: the longest unheard first.
CREATE INDEX hapax_operations_pending ON hapax_operations (module, at, id) WHERE status = 0;

-- Serves begin_operation: the newest of a step on an entity, which is the one of the highest version. Those of an entity are sorted by id when somebody asks: an
-- index for that would cost every operation a page.
CREATE INDEX hapax_operations_of_step ON hapax_operations (workspace, kind, entity, step, version, id);

-- Serves list_operations of a status. Nearly all are done in the end, and found without it.
CREATE INDEX hapax_operations_by_status ON hapax_operations (workspace, status, id) WHERE status <> 1;

-- What was seen, done or said about entities. A place is never given twice, as in the journal.
CREATE TABLE hapax_entity_notes (
    place     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    entity    TEXT    NOT NULL,
    operation BLOB CHECK (operation IS NULL OR length(operation) = 16),
    at        INTEGER NOT NULL,
    actor     TEXT,
    role      INTEGER CHECK (role BETWEEN 0 AND 1),
    body      TEXT    NOT NULL,                              -- as JSON
    CHECK ((actor IS NULL) = (role IS NULL))
) STRICT;

-- Serves list_entity_notes: those about an entity, oldest first.
CREATE INDEX hapax_entity_notes_of_entity ON hapax_entity_notes (workspace, kind, entity);

-- Entity workflows are set up, too.
ALTER TABLE hapax_items RENAME TO hapax_items_before;

CREATE TABLE hapax_items (
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 6),
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

PRAGMA user_version = 4;
