-- Of a table of the user's, generated ones too; ?2 is its schema. The number is the place of the column in the primary key, from 1.
SELECT name, pk FROM pragma_table_xinfo(?1, ?2)
