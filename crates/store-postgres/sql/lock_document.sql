-- Waits for those who begin something by the document, and keeps others from it until the end of the transaction. A lock of the row would do as well, but
-- those who share one pass by those who wait to write.
SELECT pg_advisory_xact_lock(hashtextextended($1, 4841))
