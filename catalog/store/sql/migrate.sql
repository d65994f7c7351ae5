-- name: lock
-- One process at a time migrates a database.
SELECT pg_advisory_xact_lock(hashtextextended('concord migrations', 0))

-- name: create_table
-- The record of what was applied.
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    appliedat timestamptz NOT NULL DEFAULT now()
)

-- name: applied
-- What was applied to this database.
SELECT number, name, checksum FROM migrations

-- name: is_applied
-- Whether one migration was applied.
SELECT EXISTS (SELECT FROM migrations WHERE number = $1)

-- name: record
-- Remember that a migration was applied.
INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)
