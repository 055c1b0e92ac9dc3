-- An acknowledged commit is on the disk.
PRAGMA synchronous = FULL;
-- On macOS a plain flush stops at the cache of the drive; elsewhere these two say nothing.
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
-- The writer copies the log into the file itself, between two batches.
PRAGMA wal_autocheckpoint = 0;
-- A log that grew beyond this is cut after it was emptied. Well above its usual size, because writing over a file
-- that is there is several times faster than making it grow.
PRAGMA journal_size_limit = 134217728;
-- Small on purpose: a commit that split a page walks over all of it, and the operating system keeps the rest.
PRAGMA cache_size = -16384;
PRAGMA temp_store = MEMORY;
PRAGMA mmap_size = 0;
PRAGMA trusted_schema = OFF;
PRAGMA foreign_keys = ON;
