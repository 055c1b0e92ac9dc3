-- What is known of attempts at effects, and where decisions of people came from.
--
-- Only adds: the version before goes on beside it, and writes no evidence meanwhile.

ALTER TABLE notes
    ADD COLUMN effect_class int2 CHECK (effect_class BETWEEN 0 AND 2),
    ADD COLUMN occurrence int2 CHECK (occurrence BETWEEN 0 AND 2),
    ADD COLUMN attempt int4,
    ADD COLUMN is_rerun bool NOT NULL DEFAULT false,         -- a retry dropped the record of its step
    ADD COLUMN effect text COLLATE "C",                      -- the key of the effect that the entry is evidence about
    ADD COLUMN origin text COLLATE "C",                      -- whence a person acted, as JSON
    ADD CONSTRAINT notes_evidence CHECK (
        (effect IS NULL) = (occurrence IS NULL) AND (effect IS NULL) = (attempt IS NULL)
        AND (effect IS NULL) = (effect_class IS NULL));

ALTER TABLE entity_notes ADD COLUMN origin text COLLATE "C"; -- whence a person acted, as JSON

-- Serves count_tallies. Effects that go well have no evidence, so it is small.
CREATE INDEX notes_of_effects ON notes (workspace, effect, attempt, occurrence, effect_class) WHERE effect IS NOT NULL;

-- Serves find_log: few runs are retried.
CREATE INDEX notes_of_reruns ON notes (workspace, run, generation, step, attempt) WHERE is_rerun;
