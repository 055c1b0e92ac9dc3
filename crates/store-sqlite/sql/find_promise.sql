SELECT id, run, deadline_at, status, settled_at, value FROM hapax_promises WHERE workspace = ?1 AND id = ?2
