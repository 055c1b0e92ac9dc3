INSERT INTO events (workspace, run, version, at, fence, kind, note) VALUES ($1, $2, $3, $4, $5, $6, $7)
