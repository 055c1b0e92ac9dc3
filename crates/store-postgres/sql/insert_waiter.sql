INSERT INTO promise_waiters (workspace, promise, run) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
