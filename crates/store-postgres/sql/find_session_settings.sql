-- What visit_schema.sql changes, as it was.
SELECT current_setting('search_path'), current_setting('lock_timeout')
