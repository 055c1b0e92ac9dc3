-- A setting that only we send: is it there?
SELECT current_setting('hapax.schema', true)
