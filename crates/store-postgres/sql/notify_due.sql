SELECT pg_notify('hapax_due', $1)
