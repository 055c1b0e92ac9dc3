-- The oldest first; one that is processed again meanwhile is left for another time.
DELETE FROM hooks AS h
USING (
    SELECT workspace, place
    FROM hooks
    WHERE status <> 0 AND received_at < $1
    ORDER BY received_at, place
    LIMIT $2
    FOR UPDATE SKIP LOCKED
) AS old
WHERE h.workspace = old.workspace AND h.place = old.place
