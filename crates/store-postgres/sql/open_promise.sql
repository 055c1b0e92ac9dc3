-- One that is there already is left as it is.
INSERT INTO promises (workspace, id, run, deadline_at, status, settled_at, value) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (workspace, id) DO NOTHING
