-- name: analyze
-- Let the planner know what the tables have that large writes fill.
ANALYZE entities, documents, tombstones, changes

-- name: size
-- How many entities there were, about, when statistics were last made.
SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'entities'::regclass
