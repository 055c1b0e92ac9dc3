-- Families: a root with all runs that descend from it.

-- The root of a child, and how many runs are above it; NULL of a run without a parent. Children that were started before this have none: they
-- count as children of a root.
ALTER TABLE hapax_run_facts ADD COLUMN root BLOB CHECK (root IS NULL OR length(root) = 16);
ALTER TABLE hapax_run_facts ADD COLUMN depth INTEGER CHECK (depth IS NULL OR depth >= 1);

-- Serves sweeps of cancelled families, and the forgetting of families. Runs without a parent are not in it.
CREATE INDEX hapax_run_facts_descendants ON hapax_run_facts (workspace, root, id) WHERE root IS NOT NULL;

-- A row is there from the first child of a root on, until the last run of the family is deleted.
CREATE TABLE hapax_families (
    workspace    INTEGER NOT NULL,
    root         BLOB NOT NULL CHECK (length(root) = 16),
    born         INTEGER NOT NULL CHECK (born >= 0),
    cancelled_at INTEGER,
    reason       TEXT CHECK ((reason IS NULL) = (cancelled_at IS NULL)),
    is_swept     INTEGER NOT NULL DEFAULT 0 CHECK (is_swept BETWEEN 0 AND 1),
    PRIMARY KEY (workspace, root)
) STRICT, WITHOUT ROWID;

-- Serves list_unswept_families: what a crash left.
CREATE INDEX hapax_families_unswept ON hapax_families (root) WHERE cancelled_at IS NOT NULL AND is_swept = 0;

DROP VIEW hapax_heads;

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
    f.root             AS root,
    f.depth            AS depth,
    r.token            AS token,
    r.workspace        AS workspace
FROM hapax_runs AS r
    CROSS JOIN hapax_run_facts  AS f ON f.id = r.id
    CROSS JOIN hapax_workflows  AS w ON w.id = r.workflow
    CROSS JOIN hapax_workspaces AS s ON s.id = r.workspace;

PRAGMA user_version = 8;
