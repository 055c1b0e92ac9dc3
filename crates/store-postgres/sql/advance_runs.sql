-- The hot path: writes under leases, any number of runs at once. A run is written only if its guard holds, and what belongs
-- to it (steps, history, result, …) only if its run was. Answers with the runs that were written.
--
-- No read comes before it: in the usual case the guard is all that protects. Rows are locked in the order of the input.
-- For that, LIMIT $1 (the number of rows) makes the planner expect few of them, so that it always goes from the input to
-- the run by its key; and IN (…) IS TRUE is a lookup in a hash table, which a join would be only if the planner said so.
WITH won AS (
    UPDATE runs AS r
    SET version = i.version, token = i.token, changed_at = i.changed_at, stalls = i.stalls, generation = i.generation,
        asked = i.asked, status = i.status, closed_at = i.closed_at,
        -- The end of a lease is moved by renewals only. A run that has seen fewer arrivals than there are is due at once.
        wake_at = CASE WHEN i.keeps_lease THEN r.wake_at WHEN r.arrivals > i.seen THEN $2::int8 ELSE i.wake_at END,
        lease_owner = CASE WHEN i.keeps_lease THEN r.lease_owner END
    FROM (
        SELECT *
        FROM unnest($3::int4[], $4::int4[], $5::uuid[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
            $11::int4[], $12::int4[], $13::int2[], $14::int2[], $15::int8[], $16::int8[], $17::bool[], $18::int8[])
            AS u (n, workspace, id, expected, fence, version, token, changed_at,
                stalls, generation, asked, status, closed_at, wake_at, keeps_lease, seen)
        LIMIT $1::int8
    ) AS i
    WHERE r.workspace = i.workspace AND r.id = i.id AND r.version = i.expected AND r.fence = i.fence
        -- Asked of both tables, so that the planner does not take leased runs for few and begin with them.
        AND (r.lease_owner IS NOT NULL OR i.n < 0)
        -- The end of a run with children has more consequences than fit in here.
        AND (i.closed_at IS NULL OR NOT r.has_children)
        -- So has the opening of a promise that is there with a key, which it was not opened with this time.
        AND (i.n IN (
            SELECT o.n
            FROM (SELECT * FROM unnest($52::int4[], $53::int4[], $55::text[]) AS u (n, workspace, id) LIMIT $1::int8) AS o
                JOIN promises AS p ON p.workspace = o.workspace AND p.id = o.id
            WHERE p.key IS NOT NULL
        )) IS NOT TRUE
    RETURNING i.n, r.arrivals > i.seen AS is_due
), recorded AS (
    INSERT INTO steps (workspace, run, generation, step, kind, status, attempts, started_at, started_version,
        changed_version, fence, at, value, child)
    SELECT workspace, run, generation, step, kind, status, attempts, started_at, started_version, changed_version, fence,
        at, value, child
    FROM unnest($19::int4[], $20::int4[], $21::uuid[], $22::int4[], $23::text[], $24::int2[], $25::int2[], $26::int4[],
        $27::int8[], $28::int8[], $29::int8[], $30::int8[], $31::int8[], $32::text[], $33::uuid[])
        AS u (n, workspace, run, generation, step, kind, status, attempts, started_at, started_version, changed_version,
            fence, at, value, child)
    WHERE (n IN (SELECT n FROM won)) IS TRUE
    ON CONFLICT (workspace, run, generation, step) DO UPDATE
    SET kind = excluded.kind, status = excluded.status, attempts = excluded.attempts, started_at = excluded.started_at,
        started_version = excluded.started_version, changed_version = excluded.changed_version, fence = excluded.fence,
        at = excluded.at, value = excluded.value, child = excluded.child
), told AS (
    INSERT INTO events (workspace, run, version, at, fence, kind, note)
    SELECT workspace, run, version, at, fence, kind, note
    FROM unnest($34::int4[], $35::int4[], $36::uuid[], $37::int8[], $38::int8[], $39::int8[], $40::int2[], $41::text[])
        AS u (n, workspace, run, version, at, fence, kind, note)
    WHERE (n IN (SELECT n FROM won)) IS TRUE
), ended AS (
    INSERT INTO run_results (workspace, run, status, value)
    SELECT workspace, run, status, value
    FROM unnest($42::int4[], $43::int4[], $44::uuid[], $45::int2[], $46::text[]) AS u (n, workspace, run, status, value)
    WHERE (n IN (SELECT n FROM won)) IS TRUE
), aged AS (
    UPDATE keys AS k
    SET expires_at = i.expires_at
    FROM (
        SELECT *
        FROM unnest($47::int4[], $48::int4[], $49::text[], $50::uuid[], $51::int8[])
            AS u (n, workspace, key, run, expires_at)
        LIMIT $1::int8
    ) AS i
    WHERE k.workspace = i.workspace AND k.kind = 0 AND k.key = i.key AND k.run = i.run
        AND (i.n IN (SELECT n FROM won)) IS TRUE
), opened AS (
    INSERT INTO promises (workspace, run, id, deadline_at, created_at, status)
    SELECT workspace, run, id, deadline_at, created_at, 0
    FROM unnest($52::int4[], $53::int4[], $54::uuid[], $55::text[], $56::int8[], $57::int8[])
        AS u (n, workspace, run, id, deadline_at, created_at)
    WHERE (n IN (SELECT n FROM won)) IS TRUE
    -- One that is there already is left as it is.
    ON CONFLICT (workspace, id) DO NOTHING
), consumed AS (
    DELETE FROM signals AS s
    USING (
        SELECT * FROM unnest($58::int4[], $59::int4[], $60::uuid[], $61::int8[]) AS u (n, workspace, run, seq) LIMIT $1::int8
    ) AS i
    WHERE s.workspace = i.workspace AND s.run = i.run AND s.seq = i.seq AND (i.n IN (SELECT n FROM won)) IS TRUE
)
SELECT n, is_due FROM won
