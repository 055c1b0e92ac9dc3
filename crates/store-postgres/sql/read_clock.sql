-- Milliseconds since the epoch, by the server's clock at this very moment, with what is known of its jumps.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 + c.correction_ms, c.number, c.seen_ms
FROM clock_correction AS c
WHERE c.id = 0
