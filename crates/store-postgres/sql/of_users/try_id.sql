SELECT $1::text::{id_type} IS NOT NULL
