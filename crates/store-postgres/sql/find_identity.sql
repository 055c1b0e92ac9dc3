-- Which store these tables are, and in which database: a copy of a database has the tables of the other.
SELECT id, current_database()::text FROM identity WHERE one = 1
