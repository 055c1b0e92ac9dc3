-- The longest free first. One that somebody begins or another pass deletes meanwhile is passed over.
DELETE FROM requests AS r
USING (
    SELECT workspace, caller, key
    FROM requests
    WHERE free_at <= $1
    ORDER BY free_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
) AS free
WHERE r.workspace = free.workspace AND r.caller = free.caller AND r.key = free.key
