-- Settings of the session, for connections whose startup message cannot carry them.
SELECT set_config(name, value, false)
FROM unnest($1::text[], $2::text[]) AS given (name, value)
