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
