SELECT s.name, h.source, h.event, h.place, h.received_at, h.changed_at, h.duplicates, h.attempts, h.status, h.outcome, h.headers, h.body
FROM (
        SELECT * FROM hooks
        WHERE status = 0 AND received_at < $1 AND (received_at, place) > ($2, $3)
        ORDER BY received_at, place LIMIT $4
    ) AS h
    JOIN workspaces AS s ON s.id = h.workspace
ORDER BY h.received_at, h.place
