-- At exclusive opening: whoever held these leases is dead.
UPDATE hapax_runs INDEXED BY hapax_runs_open SET wake_at = ?1 WHERE closed_at IS NULL AND lease_owner IS NOT NULL AND wake_at > ?1
