-- Which transaction this is; one that was ended and begun again is another.
SELECT pg_current_xact_id()::text
