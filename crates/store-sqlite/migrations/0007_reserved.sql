-- Changes nothing.

PRAGMA user_version = 7;
