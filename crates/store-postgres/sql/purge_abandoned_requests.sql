-- What is in flight came at most as late as its hold ended. One that somebody takes over meanwhile is passed over.
DELETE FROM requests AS r
USING (
    SELECT workspace, caller, key
    FROM requests
    WHERE status = 0 AND first_seen_at <= $1 AND until <= $1
    ORDER BY first_seen_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
) AS abandoned
WHERE r.workspace = abandoned.workspace AND r.caller = abandoned.caller AND r.key = abandoned.key
