-- A new generation, or another change to a run that stays leased; the lease itself is moved by renewals only.
UPDATE hapax_runs
SET version = ?5, token = ?6, changed_at = ?7, stalls = ?8, generation = ?9, asked = ?10
WHERE workspace = ?1 AND id = ?2 AND version = ?3 AND fence = ?4 AND lease_owner IS NOT NULL
