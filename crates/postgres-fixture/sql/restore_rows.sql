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
    FOR relation IN
        SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format('DELETE FROM public.%I', relation.relname);
        GET DIAGNOSTICS deleted = ROW_COUNT;
        total := total + deleted;
    END LOOP;
    IF total > 5000 THEN
        RAISE EXCEPTION 'the test left % rows', total;
    END IF;
    FOR relation IN
        SELECT substr(relname, length('rows_of_') + 1) AS relname FROM pg_class
        WHERE relnamespace = 'fixture'::regnamespace AND relkind = 'r' AND starts_with(relname, 'rows_of_')
    LOOP
        EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE TABLE fixture.%I', relation.relname, 'rows_of_' || relation.relname);
    END LOOP;
    PERFORM setval(format('public.%I', name), last_value, is_called) FROM fixture.sequences;
END $$
