UPDATE hapax_runs SET wake_at = ?5 WHERE workspace = ?1 AND id = ?2 AND fence = ?3 AND lease_owner = ?4
