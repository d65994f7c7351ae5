-- name: read
-- The entries after a position in log order, up to the first transaction still running, each with
-- the beginning of the log. One row without an entry stands for none.
SELECT e.*, n.dropped_subscription_txid AS dropped_txid, n.dropped_subscription_seq AS dropped_seq
FROM node n
LEFT JOIN LATERAL (
    SELECT * FROM subscription_events
    WHERE (txid, seq) > ($1, $2)
        AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY txid, seq
    LIMIT $3
) AS e ON true
ORDER BY e.txid, e.seq

-- name: drop_oldest
-- Delete up to $3 of the oldest entries that are of transactions before $1 or not among the last $2, and let
-- the log begin after them; how many.
WITH newest AS (
    SELECT seq FROM subscription_events ORDER BY txid DESC, seq DESC LIMIT 1
), oldest AS (
    SELECT txid, seq FROM subscription_events
    WHERE txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY txid, seq LIMIT $3
), kept AS (
    SELECT o.txid, o.seq FROM oldest o CROSS JOIN newest n
    WHERE o.txid >= $1 AND o.seq > n.seq - $2
    ORDER BY o.txid, o.seq LIMIT 1
), gone AS (
    DELETE FROM subscription_events e USING oldest o
    WHERE (e.txid, e.seq) = (o.txid, o.seq)
        AND NOT EXISTS (SELECT FROM kept k WHERE (k.txid, k.seq) <= (o.txid, o.seq))
    RETURNING e.txid, e.seq
), last AS (
    SELECT txid, seq FROM gone ORDER BY txid DESC, seq DESC LIMIT 1
)
UPDATE node SET dropped_subscription_txid = last.txid, dropped_subscription_seq = last.seq
FROM last
RETURNING (SELECT count(*) FROM gone)
