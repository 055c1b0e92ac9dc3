INSERT INTO hapax_promise_waiters (workspace, promise, run) VALUES (?1, ?2, ?3)
ON CONFLICT (workspace, promise, run) DO NOTHING
