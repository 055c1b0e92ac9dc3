-- In their order, which that of their places follows.
INSERT INTO notes (workspace, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt,
    occurrence, is_rerun)
SELECT workspace, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence,
    is_rerun
FROM unnest($1::int4[], $2::uuid[], $3::int4[], $4::text[], $5::int8[], $6::int8[], $7::uuid[], $8::text[], $9::int2[],
    $10::text[], $11::text[], $12::text[], $13::int2[], $14::int4[], $15::int2[], $16::bool[]) WITH ORDINALITY
    AS u (workspace, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt,
    occurrence, is_rerun, n)
ORDER BY n
