-- What is in flight came at most as late as its hold ended. One that somebody takes over meanwhile is passed over; the rows are
-- locked, so that their places stay theirs.
DELETE FROM requests
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM requests
    WHERE status = 0 AND first_seen_at <= $1 AND until <= $1
    ORDER BY first_seen_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
