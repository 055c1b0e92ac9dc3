-- One over the column ?3 of a table of the user's, and nothing else.
SELECT l.name FROM pragma_index_list(?1, ?2) AS l
WHERE l."unique" = 1 AND l.partial = 0
    AND (SELECT count(*) FROM pragma_index_info(l.name, ?2)) = 1
    AND (SELECT lower(i.name) FROM pragma_index_info(l.name, ?2) AS i) = lower(?3)
