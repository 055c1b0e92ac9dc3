-- The entries that writes under leases bring, any number of them at once: those of writes that took effect earlier in this
-- transaction. The version of the run's row that such a write left was made by it, which tells it from one of the same token
-- that was sent before.
INSERT INTO notes (workspace, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt,
    occurrence, is_rerun)
SELECT i.workspace, i.run, i.generation, i.step, i.at, i.fence, i.owner, i.actor, i.role, i.origin, i.body, i.effect,
    i.effect_class, i.attempt, i.occurrence, i.is_rerun
FROM (
    SELECT *
    FROM unnest($2::int4[], $3::uuid[], $4::int8[], $5::int4[], $6::uuid[], $7::int4[], $8::text[], $9::int8[], $10::int8[],
        $11::uuid[], $12::text[], $13::int2[], $14::text[], $15::text[], $16::text[], $17::int2[], $18::int4[], $19::int2[],
        $20::bool[]) WITH ORDINALITY
        AS u (written_workspace, written, token, workspace, run, generation, step, at, fence, owner, actor, role, origin, body,
        effect, effect_class, attempt, occurrence, is_rerun, n)
    LIMIT $1::int8
) AS i
    JOIN runs AS r ON r.workspace = i.written_workspace AND r.id = i.written
WHERE r.token = i.token AND r.xmin = pg_current_xact_id()::xid
ORDER BY i.n
