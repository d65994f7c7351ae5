-- name: read
-- Changes after a position, in log order, as far as nothing earlier can still appear.
SELECT * FROM changes
WHERE (txid, seq) > ($1, $2)
    AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
ORDER BY txid, seq
LIMIT $3

-- name: head
-- Up to where the log can be read now, and up to where it was dropped.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS txid,
    dropped_txid, dropped_seq
FROM node

-- name: announce
-- Wake the other processes of this node: the log has grown.
SELECT pg_notify('changes', '')
