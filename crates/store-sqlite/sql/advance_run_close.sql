UPDATE hapax_runs
SET version = ?5, token = ?6, changed_at = ?7, stalls = ?8, generation = ?9, asked = ?10, status = ?11, closed_at = ?12,
    wake_at = NULL, lease_owner = NULL
WHERE workspace = ?1 AND id = ?2 AND version = ?3 AND fence = ?4 AND lease_owner IS NOT NULL
