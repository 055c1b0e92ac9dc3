DELETE FROM hapax_promise_waiters INDEXED BY hapax_promise_waiters_of_run WHERE workspace = ?1 AND run = ?2
