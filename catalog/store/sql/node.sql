-- name: create
-- Decide once who this node is.
INSERT INTO node (instance, authority, modelsource, resolved) VALUES ($1, $2, $3::json, $4::json)
ON CONFLICT DO NOTHING

-- name: read
-- Who this node is.
SELECT instance, authority FROM node

-- name: is_log_from_elsewhere
-- Whether the log holds positions that this server has not given out yet.
SELECT EXISTS (
    SELECT FROM changes WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)

-- name: forget_log
-- A log whose positions could come again would mislead its readers.
DELETE FROM changes

-- name: renew_instance
-- Tell peers that they can't go on from where they were.
UPDATE node SET instance = $1

-- name: rollback
-- Leave a transaction that its user was cancelled in.
ROLLBACK
