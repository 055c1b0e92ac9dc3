INSERT INTO run_facts (workspace, id, created_at, key, fingerprint, keep_key_for_ms, release_on_failure, subject,
    deadline_at, parent, parent_step, cancel_with_parent, input, root, depth)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
