-- The lease is given back. A run that has seen fewer arrivals than there are is due at once.
UPDATE hapax_runs
SET version = ?5, token = ?6, changed_at = ?7, stalls = ?8, generation = ?9, asked = ?10, status = ?11,
    wake_at = CASE WHEN arrivals > ?13 THEN ?14 ELSE ?12 END, lease_owner = NULL
WHERE workspace = ?1 AND id = ?2 AND version = ?3 AND fence = ?4 AND lease_owner IS NOT NULL
RETURNING arrivals
