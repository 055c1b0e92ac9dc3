-- Until the end of the transaction nobody replaces these documents: see lock_document.
SELECT pg_advisory_xact_lock_shared(hashtextextended(i.id, 4841))
FROM (SELECT u.id FROM unnest($1::text[]) AS u (id) ORDER BY u.id) AS i
