-- Run once in a template: keeps what a used copy must look like again before another test may have it.
CREATE SCHEMA fixture;

-- Everything that a test could change besides rows: tables, columns, indexes, constraints, functions, triggers, settings.
CREATE FUNCTION fixture.shape() RETURNS text LANGUAGE sql STABLE AS $$
    WITH ours AS (
        SELECT oid, nspname FROM pg_namespace
        WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'fixture')
    ), parts AS (
        SELECT format('relation %s.%s %s %s %s', nspname, relname, relkind, relpersistence, reloptions) AS part
        FROM pg_class JOIN ours ON ours.oid = relnamespace
        UNION ALL
        SELECT format('column %s.%s.%s %s %s %s %s', nspname, relname, attname, atttypid::regtype, attnotnull, attnum,
            (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum))
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN ours ON ours.oid = relnamespace
        WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT pg_get_indexdef(indexrelid) || indisvalid
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN ours ON ours.oid = relnamespace
        UNION ALL
        SELECT format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(pg_constraint.oid))
        FROM pg_constraint JOIN ours ON ours.oid = connamespace
        UNION ALL
        SELECT format('function %s %s', pg_proc.oid::regprocedure, md5(prosrc)) FROM pg_proc JOIN ours ON ours.oid = pronamespace
        UNION ALL
        SELECT pg_get_triggerdef(oid) || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL
        SELECT format('schema %s', nspname) FROM ours
        UNION ALL
        SELECT format('extension %s', extname) FROM pg_extension
        UNION ALL
        SELECT format('setting %s', setconfig) FROM pg_db_role_setting
        WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    SELECT md5(string_agg(part, E'\n' ORDER BY part COLLATE "C")) FROM parts
$$;

CREATE TABLE fixture.remembered AS SELECT fixture.shape() AS shape;
CREATE TABLE fixture.sequences (name text NOT NULL, last_value bigint NOT NULL, is_called boolean NOT NULL);
-- The tables that have rows in the template, each with the table that keeps them.
CREATE TABLE fixture.filled (name text NOT NULL, kept_in text NOT NULL);

CREATE VIEW fixture.relations AS
    SELECT pg_class.oid, format('%I.%I', nspname, relname) AS name, relkind
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'fixture');

DO $$
DECLARE relation record; is_filled boolean; kept_in text;
BEGIN
    FOR relation IN SELECT * FROM fixture.relations WHERE relkind IN ('r', 'S') LOOP
        IF relation.relkind = 'S' THEN
            EXECUTE format('INSERT INTO fixture.sequences SELECT %L, last_value, is_called FROM %s', relation.name, relation.name);
        ELSE
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation.name) INTO is_filled;
            IF is_filled THEN
                kept_in := format('fixture.rows_%s', relation.oid);
                EXECUTE format('CREATE TABLE %s AS TABLE %s', kept_in, relation.name);
                INSERT INTO fixture.filled VALUES (relation.name, kept_in);
            END IF;
        END IF;
    END LOOP;
END $$;
