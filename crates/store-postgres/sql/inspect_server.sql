-- What must be right about a server, and what should be.
SELECT current_setting('server_version_num')::int4,
    pg_is_in_recovery(),
    current_setting('transaction_read_only')::bool,
    current_setting('fsync'),
    current_setting('full_page_writes'),
    current_setting('synchronous_commit')
