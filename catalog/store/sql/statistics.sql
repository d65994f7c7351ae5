-- name: analyze
-- Renew the statistics of the tables that large writes fill.
ANALYZE entities, documents, search_index, tombstones, changes

-- name: size
-- The approximate number of entities at the time of the last statistics.
SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'entities'::regclass
