-- All SQLite can map: a page that is in memory is read without a call and a copy (docs/decisions/0013).
PRAGMA mmap_size = 2147418112;
