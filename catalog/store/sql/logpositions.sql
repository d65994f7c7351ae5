-- name: bounds
-- The last position that can be read now in one of the logs, the last one that was dropped there,
-- and the time of the first entry.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS txid,
    CASE $1 WHEN 'changes' THEN dropped_txid ELSE dropped_subscription_txid END AS dropped_txid,
    CASE $1 WHEN 'changes' THEN dropped_seq ELSE dropped_subscription_seq END AS dropped_seq,
    CASE $1
        WHEN 'changes' THEN (SELECT at FROM changes ORDER BY txid, seq LIMIT 1)
        ELSE (SELECT at FROM subscription_events ORDER BY txid, seq LIMIT 1)
    END AS first_at,
    now() AS now
FROM node

-- name: change_since
-- The first change that was made at a time or later.
SELECT txid, seq FROM changes WHERE at >= $1 ORDER BY txid, seq LIMIT 1

-- name: subscription_event_since
-- The same for the log of subscriptions.
SELECT txid, seq FROM subscription_events WHERE at >= $1 ORDER BY txid, seq LIMIT 1
