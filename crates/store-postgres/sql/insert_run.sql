INSERT INTO runs (workspace, id, version, changed_at, stalls, fence, status, wake_at, lease_owner, arrivals, generation,
    asked, priority, workflow, workflow_version, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
