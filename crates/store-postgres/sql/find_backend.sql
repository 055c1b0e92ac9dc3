-- Which process of the server works for this session.
SELECT pg_backend_pid()
