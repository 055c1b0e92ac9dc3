-- Until the end of the transaction; nodes that start together migrate one after the other.
SELECT pg_advisory_xact_lock($1)
