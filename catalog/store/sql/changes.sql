-- name: read
-- The changes after a position in log order, up to the first transaction still running.
SELECT * FROM changes
WHERE (txid, seq) > ($1, $2)
    AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
ORDER BY txid, seq
LIMIT $3

-- name: head
-- The last position that can be read now, and the last one that was dropped.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS txid,
    dropped_txid, dropped_seq
FROM node

-- name: announce
-- Tell the other processes of this node that the log has grown.
SELECT pg_notify('changes', '')

-- name: written
-- The snapshot of now, and what was logged by transactions that an earlier one did not see;
-- its first part is where to look, apart, so that the plan is made for it.
SELECT pg_current_snapshot()::text AS snapshot, c.xid, c.kind, c.action
FROM (SELECT) AS once
LEFT JOIN (
    SELECT DISTINCT xid, kind, action FROM changes
    WHERE txid >= $2 AND NOT pg_visible_in_snapshot(txid::text::xid8, $1::text::pg_snapshot)
    LIMIT $3
) AS c ON true
