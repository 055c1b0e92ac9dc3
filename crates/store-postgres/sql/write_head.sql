-- Everything that can change. The row was locked when it was read.
UPDATE runs
SET version = $3, changed_at = $4, stalls = $5, fence = $6, status = $7, wake_at = $8, lease_owner = $9, arrivals = $10,
    started_at = $11, generation = $12, asked = $13, closed_at = $14, token = $15, has_children = $16
WHERE workspace = $1 AND id = $2
