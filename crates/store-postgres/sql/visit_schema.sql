-- What a transaction of the user's looks up names by, and how long it waits for a lock.
SELECT set_config('search_path', $1, true), set_config('lock_timeout', $2, true)
