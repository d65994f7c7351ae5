-- name: bounds
-- The last position that can be read now in one of the logs, the last one that was dropped there,
-- and the time of the first entry.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS txid,
    CASE $1 WHEN 'changes' THEN dropped_txid WHEN 'audit' THEN dropped_audit_txid
        ELSE dropped_subscription_txid END AS dropped_txid,
    CASE $1 WHEN 'changes' THEN dropped_seq WHEN 'audit' THEN dropped_audit_seq
        ELSE dropped_subscription_seq END AS dropped_seq,
    CASE $1
        WHEN 'changes' THEN (SELECT at FROM changes ORDER BY txid, seq LIMIT 1)
        WHEN 'audit' THEN (SELECT at FROM audit ORDER BY txid, seq LIMIT 1)
        ELSE (SELECT at FROM subscription_events ORDER BY txid, seq LIMIT 1)
    END AS first_at,
    now() AS now
FROM node

-- name: change_since
-- The first change that can be read now and was made at a time or later. The same is asked of the
-- tables of other logs.
--
-- Times ascend with the positions, save that an entry may be earlier than one before it by up to $2.
-- The search halves the transactions: what comes before its `low` is earlier than $1, as there is an
-- entry from more than $2 before. The rest is read in order.
WITH RECURSIVE readable AS (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon
), search (low, high) AS (
    SELECT (SELECT txid FROM changes ORDER BY txid, seq LIMIT 1), (
        SELECT txid FROM changes WHERE txid < (SELECT horizon FROM readable)
        ORDER BY txid DESC, seq DESC LIMIT 1
    )
    UNION ALL
    SELECT CASE WHEN e.at < $1::timestamptz - $2::interval THEN e.txid ELSE s.low END,
        CASE WHEN e.at < $1::timestamptz - $2::interval THEN s.high ELSE s.middle - 1 END
    FROM (
        SELECT low, high, low + (high - low + 1) / 2 AS middle FROM search WHERE low < high
    ) AS s
    CROSS JOIN LATERAL (
        SELECT txid, at FROM changes WHERE txid >= s.middle ORDER BY txid, seq LIMIT 1
    ) AS e
)
SELECT txid, seq FROM changes
WHERE txid >= (SELECT max(low) FROM search) AND txid < (SELECT horizon FROM readable) AND at >= $1
ORDER BY txid, seq LIMIT 1
