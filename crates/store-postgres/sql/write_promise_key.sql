-- A locked one. One that is seen anew is counted anew.
UPDATE keys
SET promise = $3,
    replays = CASE WHEN first_seen_at = $4 THEN replays ELSE 0 END,
    conflicts = CASE WHEN first_seen_at = $4 THEN conflicts ELSE 0 END,
    first_seen_at = $4,
    expires_at = $5
WHERE workspace = $1 AND kind = 1 AND key = $2
