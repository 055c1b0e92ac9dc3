-- What is known of the effect of an operation, and the version of the document it began under.

ALTER TABLE hapax_operations ADD COLUMN document INTEGER CHECK (document IS NULL OR document >= 1);
-- The operation whose effect key it carries; NULL if that is its own.
ALTER TABLE hapax_operations ADD COLUMN effect_of BLOB CHECK (effect_of IS NULL OR length(effect_of) = 16);
ALTER TABLE hapax_operations ADD COLUMN may_repeat INTEGER NOT NULL DEFAULT 0 CHECK (may_repeat BETWEEN 0 AND 1);
ALTER TABLE hapax_operations ADD COLUMN done_before INTEGER NOT NULL DEFAULT 0 CHECK (done_before BETWEEN 0 AND 1);
-- Milliseconds.
ALTER TABLE hapax_operations ADD COLUMN grace INTEGER NOT NULL DEFAULT 0 CHECK (grace >= 0);
ALTER TABLE hapax_operations ADD COLUMN tries INTEGER NOT NULL DEFAULT 1 CHECK (tries >= 0);
ALTER TABLE hapax_operations ADD COLUMN tries_before INTEGER NOT NULL DEFAULT 0 CHECK (tries_before >= 0);
-- Of one that was given back: it is known not to have happened.
ALTER TABLE hapax_operations ADD COLUMN settled INTEGER NOT NULL DEFAULT 0 CHECK (settled BETWEEN 0 AND 1);

-- Serves list_doubted_operations: the longest in doubt first.
CREATE INDEX hapax_operations_doubted ON hapax_operations (module, at, id) WHERE status = 5;

PRAGMA user_version = 6;
