-- name: page
-- The changes after a position in log order, up to the first transaction still running, each with
-- the head of the log and the newest change. One row without a change stands for none.
SELECT c.*, newest.txid AS newest_txid, newest.seq AS newest_seq,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS now_txid,
    n.dropped_txid, n.dropped_seq, n.gate
FROM node n
LEFT JOIN LATERAL (
    SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
    SELECT * FROM changes
    WHERE (txid, seq) > ($1, $2)
        AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY txid, seq
    LIMIT $3
) AS c ON true
ORDER BY c.txid, c.seq

-- name: head
-- The last position that can be read now, the last one that was dropped, and the node's gate.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS now_txid,
    dropped_txid, dropped_seq, gate
FROM node

-- name: newest
-- The last change that was committed, whether readers of the log see it already or not.
SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1

-- name: before_newest
-- The last change before the newest $1 ones.
SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC OFFSET $1 LIMIT 1

-- name: announce
-- Tell the other processes of this node that the log has grown.
SELECT pg_notify('changes', '')

-- name: written
-- The snapshot of now, and what was logged by transactions that an earlier one did not see;
-- its first part is where to look, apart, so that the plan is made for it.
SELECT pg_current_snapshot()::text AS snapshot, n.dropped_txid, c.xid, c.kind, c.action
FROM node n
LEFT JOIN (
    SELECT DISTINCT xid, kind, action FROM changes
    WHERE txid >= $2 AND NOT pg_visible_in_snapshot(txid::text::xid8, $1::text::pg_snapshot)
    LIMIT $3
) AS c ON true

-- name: drop_oldest
-- Delete up to $5 of the oldest changes, and let the log begin after them. A change is kept if it
-- is of the transaction $1 or a later one and among the last $2, and also if the slowest
-- subscription has yet to pass it and it is of the transaction $3 or a later one and among the last
-- $4. The newest one always stays: it names the state
-- of the catalog.
WITH newest AS (
    SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
), slowest AS (
    SELECT txid, seq FROM subscriptions
    WHERE log = 'changes' AND state IN ('pending', 'active', 'paused')
    ORDER BY txid, seq LIMIT 1
), oldest AS (
    SELECT txid, seq FROM changes
    WHERE (txid, seq) > ((SELECT dropped_txid FROM node), (SELECT dropped_seq FROM node))
        AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY txid, seq
    LIMIT $5
), kept AS (
    SELECT o.txid, o.seq
    FROM oldest o CROSS JOIN newest n LEFT JOIN slowest s ON true
    WHERE (o.txid >= $1 AND o.seq > n.seq - $2)
        OR ((o.txid, o.seq) > (s.txid, s.seq) AND o.txid >= $3 AND o.seq > n.seq - $4)
        OR (o.txid, o.seq) >= (n.txid, n.seq)
    ORDER BY o.txid, o.seq
    LIMIT 1
), gone AS (
    DELETE FROM changes c USING oldest o
    WHERE (c.txid, c.seq) = (o.txid, o.seq)
        AND NOT EXISTS (SELECT FROM kept k WHERE (k.txid, k.seq) <= (o.txid, o.seq))
    RETURNING c.txid, c.seq
), last AS (
    SELECT txid, seq FROM gone ORDER BY txid DESC, seq DESC LIMIT 1
)
UPDATE node SET dropped_txid = last.txid, dropped_seq = last.seq FROM last
RETURNING (SELECT count(*) FROM gone)

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
