-- Those that stand alone and that the run waits for.
SELECT p.id, p.run, p.created_at, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.create_key, p.about,
    p.complete_key, p.said
FROM hapax_promise_waiters AS w INDEXED BY hapax_promise_waiters_of_run
    CROSS JOIN hapax_promises AS p ON p.workspace = w.workspace AND p.id = w.promise
WHERE w.workspace = ?1 AND w.run = ?2
ORDER BY w.promise
