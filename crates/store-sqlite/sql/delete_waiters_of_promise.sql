DELETE FROM hapax_promise_waiters WHERE workspace = ?1 AND promise = ?2
