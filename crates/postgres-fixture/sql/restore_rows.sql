-- Run in a used copy: every table gets the rows, every sequence the value it had in the template. Raises if the test changed anything else,
-- or wrote so many rows that dropping the database is quicker.
DO $$
DECLARE relation record; deleted bigint; total bigint := 0;
BEGIN
    IF fixture.shape() IS DISTINCT FROM (SELECT shape FROM fixture.remembered) THEN
        RAISE EXCEPTION 'the test changed more than rows';
    END IF;
    -- Foreign keys and triggers do not matter while everything is replaced.
    SET LOCAL session_replication_role = replica;
    FOR relation IN SELECT name FROM fixture.relations WHERE relkind = 'r' LOOP
        EXECUTE format('DELETE FROM %s', relation.name);
        GET DIAGNOSTICS deleted = ROW_COUNT;
        total := total + deleted;
    END LOOP;
    IF total > 5000 THEN
        RAISE EXCEPTION 'the test left % rows', total;
    END IF;
    FOR relation IN SELECT name, kept_in FROM fixture.filled LOOP
        EXECUTE format('INSERT INTO %s OVERRIDING SYSTEM VALUE TABLE %s', relation.name, relation.kept_in);
    END LOOP;
    PERFORM setval(name, last_value, is_called) FROM fixture.sequences;
END $$
