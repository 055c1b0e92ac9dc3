-- Only where a row still has the status and the version that were decided on.
UPDATE {table} AS t
SET {status} = i.status::{status_type}, {version} = i.version::{version_type}, {updated_at} = {instant}
FROM (SELECT * FROM unnest($2::text[], $3::text[], $4::int8[], $5::text[], $6::int8[], $7::int8[])
    AS u (id, old_status, old_version, status, version, at) LIMIT $1::int8) AS i
WHERE t.{id} = i.id::{id_type} AND t.{id}::text = i.id AND t.{status}::text = i.old_status AND t.{version} = i.old_version
RETURNING t.{id}::text
