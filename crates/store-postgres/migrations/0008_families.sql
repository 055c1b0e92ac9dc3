-- Families: a root with all runs that descend from it. And what the server's clock is corrected by.
--
-- Only adds: the version before goes on beside it. Children that it starts have no root, and count as children of a root. It is not held
-- to the limits of families, and follows the server's clock as it is.

-- NULL of a run without a parent.
ALTER TABLE run_facts
    ADD COLUMN root  uuid,
    ADD COLUMN depth int4 CHECK (depth >= 1);

-- Serves sweeps of cancelled families, and the forgetting of families. Runs without a parent are not in it.
CREATE INDEX run_facts_descendants ON run_facts (workspace, root, id) WHERE root IS NOT NULL;

-- A row is there from the first child of a root on, until the last run of the family is deleted.
CREATE TABLE families (
    workspace    int4 NOT NULL,
    root         uuid NOT NULL,
    born         int8 NOT NULL CHECK (born >= 0),
    cancelled_at int8,
    is_swept     bool NOT NULL DEFAULT false,
    reason       text COLLATE "C",
    PRIMARY KEY (workspace, root),
    CHECK ((reason IS NULL) = (cancelled_at IS NULL))
);

-- Serves list_unswept_families: what a crash left.
CREATE INDEX families_unswept ON families (root) WHERE cancelled_at IS NOT NULL AND NOT is_swept;

-- What is added to the server's clock so that it goes on as before after somebody set it. One row.
CREATE TABLE clock_correction (
    id            int2 PRIMARY KEY CHECK (id = 0),
    correction_ms int8 NOT NULL,
    number        int8 NOT NULL,                             -- of corrections so far
    seen_ms       int8                                       -- the latest time that a node went by
);
INSERT INTO clock_correction (id, correction_ms, number) VALUES (0, 0, 0);

-- A run's head as the model has it; rows.rs reads these columns by place. The view `heads` is that of the version before.
CREATE VIEW run_heads AS
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
    f.root,
    f.depth,
    r.token,
    r.has_children,
    r.workspace
FROM runs AS r
    JOIN run_facts AS f ON f.workspace = r.workspace AND f.id = r.id
    JOIN workflows AS w ON w.id = r.workflow
    JOIN workspaces AS s ON s.id = r.workspace;
