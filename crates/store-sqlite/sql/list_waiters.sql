SELECT run FROM hapax_promise_waiters WHERE workspace = ?1 AND promise = ?2 ORDER BY run
