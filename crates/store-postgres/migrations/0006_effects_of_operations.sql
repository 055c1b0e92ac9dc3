-- What is known of the effect of an operation, and the version of the document it began under.
--
-- Only adds columns with defaults: the version before goes on beside it.

ALTER TABLE operations
    ADD COLUMN document     int8,
    ADD COLUMN effect_of    uuid,                            -- whose effect key it carries; NULL if its own
    ADD COLUMN may_repeat   bool NOT NULL DEFAULT false,
    ADD COLUMN done_before  bool NOT NULL DEFAULT false,
    ADD COLUMN grace        int8 NOT NULL DEFAULT 0,         -- milliseconds
    ADD COLUMN tries        int4 NOT NULL DEFAULT 1,
    ADD COLUMN tries_before int4 NOT NULL DEFAULT 0,
    ADD COLUMN settled      bool NOT NULL DEFAULT false;     -- given back, and known not to have happened

-- Serves list_doubted_operations: the longest in doubt first.
CREATE INDEX operations_doubted ON operations (module, at, id) WHERE status = 5;
