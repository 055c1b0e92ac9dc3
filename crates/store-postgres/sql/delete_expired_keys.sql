-- The longest expired first, then in the order of keys; with the settlements that are still kept for them. One that somebody else is
-- at is left for another time, and one that was given away meanwhile stays. Answers how many keys and how many settlements.
WITH dead AS (
    DELETE FROM keys AS k
    USING (
        SELECT e.workspace, e.kind, e.key
        FROM keys AS e
            JOIN workspaces AS s ON s.id = e.workspace
        WHERE e.expires_at <= $1
        ORDER BY e.expires_at, s.name, e.kind, e.key
        LIMIT $2
        FOR UPDATE OF e SKIP LOCKED
    ) AS old
    WHERE k.workspace = old.workspace AND k.kind = old.kind AND k.key = old.key AND k.expires_at <= $1
    RETURNING k.workspace, k.kind, k.key
), late AS (
    -- Arrays, unlike a join, leave the planner no choice.
    DELETE FROM early_settlements AS e
    WHERE e.workspace = ANY (ARRAY(SELECT workspace FROM dead WHERE kind = 1))
        AND e.key = ANY (ARRAY(SELECT key FROM dead WHERE kind = 1))
        AND ((e.workspace, e.key) IN (SELECT workspace, key FROM dead WHERE kind = 1)) IS TRUE
    RETURNING 1
)
SELECT (SELECT count(*) FROM dead), (SELECT count(*) FROM late)
