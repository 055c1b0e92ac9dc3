SELECT place, received_at, changed_at, duplicates, attempts, status, outcome, headers, body
FROM hooks
WHERE workspace = $1 AND source = $2 AND event = $3
