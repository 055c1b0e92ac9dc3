-- Milliseconds since the epoch, by the server's clock at this very moment.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8
