-- The first table of that name in these schemas, one row for each wanted column that it has, and one without a column if it has none:
-- the schema, whether the table is one of the store's ($4), what kind of table it is; the column, its type as a cast names it, what that is at bottom,
-- whether it is a domain, and whether a unique index is on the column alone.
SELECT c.nspname::text, c.nspname = current_schema() AND $2::text = ANY ($4::text[]), c.relkind::text, a.attname::text, format_type(a.atttypid, -1),
    (CASE t.typbasetype WHEN 0 THEN t.oid ELSE t.typbasetype END)::int8, t.typbasetype <> 0,
    EXISTS (
        SELECT FROM pg_index AS x
        WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indnkeyatts = 1 AND x.indkey[0] = a.attnum
            AND x.indpred IS NULL)
FROM (
        SELECT c.oid, c.relkind, n.nspname
        FROM unnest($1::text[]) WITH ORDINALITY AS s (name, n)
            JOIN pg_namespace AS n ON n.nspname = s.name
            JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = $2::text AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        ORDER BY s.n
        LIMIT 1
    ) AS c
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY ($3::text[])
    LEFT JOIN pg_type AS t ON t.oid = a.atttypid
