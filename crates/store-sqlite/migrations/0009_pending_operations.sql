-- An operation is pending for a moment and done for years. Neither is in this index, so an operation that succeeds never
-- writes to it. Pending ones are found by hapax_operations_pending, which holds only those in flight.
DROP INDEX hapax_operations_by_status;
CREATE INDEX hapax_operations_by_status ON hapax_operations (workspace, status, id) WHERE status > 1;

PRAGMA user_version = 9;
