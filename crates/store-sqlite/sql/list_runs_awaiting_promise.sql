-- Of a standalone promise.
SELECT run FROM hapax_promise_waiters
WHERE workspace = ?1 AND promise = ?2 AND run < ?3
ORDER BY run DESC
LIMIT ?4
