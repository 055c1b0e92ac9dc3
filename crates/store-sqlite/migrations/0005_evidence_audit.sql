-- What is known of attempts at effects, and where decisions of people came from.

ALTER TABLE hapax_notes ADD COLUMN origin TEXT;              -- whence a person acted, as JSON
ALTER TABLE hapax_notes ADD COLUMN effect TEXT;              -- the key of the effect that the entry is evidence about
ALTER TABLE hapax_notes ADD COLUMN effect_class INTEGER CHECK (effect_class BETWEEN 0 AND 2);
ALTER TABLE hapax_notes ADD COLUMN attempt INTEGER CHECK ((attempt IS NULL) = (effect IS NULL));
ALTER TABLE hapax_notes ADD COLUMN occurrence INTEGER CHECK ((occurrence IS NULL) = (effect IS NULL) AND occurrence BETWEEN 0 AND 2);
-- 1 if the entry says that a retry dropped the record of its step.
ALTER TABLE hapax_notes ADD COLUMN is_rerun INTEGER NOT NULL DEFAULT 0 CHECK (is_rerun BETWEEN 0 AND 1);

ALTER TABLE hapax_entity_notes ADD COLUMN origin TEXT;       -- whence a person acted, as JSON

-- Serves count_tallies. Effects that go well have no evidence, so it is small.
CREATE INDEX hapax_notes_of_effects ON hapax_notes (workspace, effect, attempt, occurrence, effect_class) WHERE effect IS NOT NULL;

-- Serves find_log: few runs are retried.
CREATE INDEX hapax_notes_of_reruns ON hapax_notes (workspace, run, generation, step, attempt) WHERE is_rerun = 1;

PRAGMA user_version = 5;
