-- Entities, the operations that move them, and what is noted about them.
--
-- Only adds, and lets in what was refused: the version before goes on beside it.

-- Entities that have no table of the user's. Serves find_entity and list_entities by its primary key.
-- A claim and its end rewrite the row: room beside it spares the indexes that do not change.
CREATE TABLE entities (
    workspace  int4 NOT NULL,
    version    int8 NOT NULL CHECK (version > 0),
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    status     text COLLATE "C" NOT NULL,
    data       text COLLATE "C" NOT NULL,                    -- a JSON object
    PRIMARY KEY (workspace, kind, id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- Serves list_entities_in_status.
CREATE INDEX entities_in_status ON entities (workspace, kind, status, id);

-- Operations. Serves find_operation and list_operations, the newest first, by its primary key.
CREATE TABLE operations (
    workspace    int4 NOT NULL,
    attempt      int4 NOT NULL CHECK (attempt > 0),
    id           uuid NOT NULL,
    owner        uuid NOT NULL,
    version      int8 NOT NULL,                              -- of the entity when it began, after the claim
    began_at     int8 NOT NULL,
    at           int8 NOT NULL,                              -- last heard of, in doubt since, or ended
    status       int2 NOT NULL CHECK (status BETWEEN 0 AND 5),
    recovery     int2 NOT NULL CHECK (recovery BETWEEN 0 AND 1),
    role         int2 CHECK (role BETWEEN 0 AND 1),
    irreversible bool NOT NULL,
    has_run      bool NOT NULL,                              -- carried out by a run, whose id is the same number
    kind         text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    home         text COLLATE "C",                           -- the user's table as JSON; NULL if the entity is in ours
    workflow     text COLLATE "C" NOT NULL,
    module       text COLLATE "C" NOT NULL,
    step         text COLLATE "C" NOT NULL,
    requester    text COLLATE "C",
    actor        text COLLATE "C",
    key          text COLLATE "C",
    from_status  text COLLATE "C" NOT NULL,
    to_status    text COLLATE "C" NOT NULL,
    claim_into   text COLLATE "C",
    revert_to    text COLLATE "C",
    fingerprint  bytea NOT NULL CHECK (length(fingerprint) = 32),
    input        text COLLATE "C" NOT NULL,
    outcome      text COLLATE "C",                           -- the result, or the failure as JSON
    PRIMARY KEY (workspace, id),
    CHECK ((actor IS NULL) = (role IS NULL)),
    CHECK ((claim_into IS NULL) = (revert_to IS NULL)),
    -- What is done has a result; what was rejected or failed says why; the others have neither.
    CHECK ((status IN (1, 2, 3)) = (outcome IS NOT NULL))
) WITH (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05
);

-- At most one operation per key. Serves find_keyed_operation and begin_operation.
CREATE UNIQUE INDEX operations_by_key ON operations (workspace, key) WHERE key IS NOT NULL;

-- At most one operation holds an entity: the last line of defence. Serves begin_operation and revert_strays.
CREATE UNIQUE INDEX operations_that_hold ON operations (kind, entity, workspace) WHERE claim_into IS NOT NULL AND status IN (0, 5);

-- Serves list_stale_operations: the longest unheard first.
CREATE INDEX operations_pending ON operations (module, at, id) WHERE status = 0;

-- Serves begin_operation: the newest operation of a step on an entity, which is the one that began at the highest version.
CREATE INDEX operations_of_step ON operations (workspace, kind, entity, step, version, id);

-- Serves list_operations_of_entity.
CREATE INDEX operations_of_entity ON operations (workspace, kind, entity, id);

-- Serves list_operations_in_status.
CREATE INDEX operations_in_status ON operations (workspace, status, id);

-- What was noted about entities beyond what their operations tell.
CREATE TABLE entity_notes (
    workspace int4 NOT NULL,
    role      int2 CHECK (role BETWEEN 0 AND 1),
    place     int8 NOT NULL GENERATED ALWAYS AS IDENTITY,    -- never given twice
    at        int8 NOT NULL,
    operation uuid,
    kind      text COLLATE "C" NOT NULL,
    entity    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C",
    body      text COLLATE "C" NOT NULL,                     -- as JSON
    PRIMARY KEY (workspace, place),
    CHECK ((actor IS NULL) = (role IS NULL))
);

-- Serves list_entity_notes.
CREATE INDEX entity_notes_of_entity ON entity_notes (workspace, kind, entity, place);

-- One more kind of items: entity workflows.
ALTER TABLE items
    DROP CONSTRAINT items_kind_check,
    ADD CONSTRAINT items_kind_check CHECK (kind BETWEEN 0 AND 6) NOT VALID;
