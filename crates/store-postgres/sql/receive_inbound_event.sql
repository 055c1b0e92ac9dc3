-- Takes in an event, or counts it as a duplicate; answers also whether it is new. Of two that come at once the second waits for the
-- first, and is the duplicate.
WITH known AS (
    UPDATE hooks SET duplicates = duplicates + 1 WHERE workspace = $1 AND source = $2 AND event = $3
    RETURNING false AS is_new, hooks.*
), taken AS (
    INSERT INTO hooks (workspace, source, event, received_at, changed_at, duplicates, attempts, status, headers, body)
    SELECT $1, $2, $3, $4, $4, 0, 0, 0, $5, $6 WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (workspace, source, event) DO UPDATE SET duplicates = hooks.duplicates + 1
    RETURNING duplicates = 0 AS is_new, hooks.*
)
SELECT is_new, place, received_at, changed_at, duplicates, attempts, status, outcome, headers, body FROM known
UNION ALL
SELECT is_new, place, received_at, changed_at, duplicates, attempts, status, outcome, headers, body FROM taken
