-- name: lock
-- Let one process at a time migrate a database.
SELECT pg_advisory_xact_lock(hashtextextended('concord migrations', 0))

-- name: create_table
-- Create the table of applied migrations.
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    appliedat timestamptz NOT NULL DEFAULT now()
)

-- name: is_there
-- Whether the table of applied migrations is there.
SELECT to_regclass('public.migrations') IS NOT NULL

-- name: applied
-- The migrations that were applied to this database.
SELECT number, name, checksum FROM migrations ORDER BY number

-- name: record
-- Record that a migration was applied.
INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)

-- name: model
-- The model of the catalog, as its operator wrote it, and with what it includes.
SELECT modelsource, resolved FROM node
