-- name: before
-- The rows before a position that meet some conditions, where they are not null, newest first.
SELECT * FROM audit
WHERE (txid, seq) < ($1, $2)
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR starts_with(path, $6)
        OR EXISTS (SELECT FROM unnest(targets) AS t (target) WHERE starts_with(target, $6)))
    AND ($7::text IS NULL OR interaction = $7) AND ($8::text IS NULL OR outcome = $8)
ORDER BY txid DESC, seq DESC
LIMIT $9

-- name: after
-- The same after a position in log order, up to the first transaction still running.
SELECT * FROM audit
WHERE (txid, seq) > ($1, $2) AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR starts_with(path, $6)
        OR EXISTS (SELECT FROM unnest(targets) AS t (target) WHERE starts_with(target, $6)))
    AND ($7::text IS NULL OR interaction = $7) AND ($8::text IS NULL OR outcome = $8)
ORDER BY txid, seq
LIMIT $9

-- name: dropped
-- The position of the last row that was dropped.
SELECT dropped_audit_txid AS txid, dropped_audit_seq AS seq FROM node

-- name: drop_oldest
-- Delete up to $4 rows from before $1, as many beyond the last $2 of what was done, and beyond the
-- last $3 of what was refused, which others can cause; how many.
WITH surplus AS (
    SELECT txid, seq FROM audit WHERE outcome = 'done'
    ORDER BY txid DESC, seq DESC OFFSET $2 LIMIT 1
), surplus_refused AS (
    SELECT txid, seq FROM audit WHERE outcome = 'refused'
    ORDER BY txid DESC, seq DESC OFFSET $3 LIMIT 1
), old AS (
    SELECT txid, seq FROM (SELECT txid, seq, at FROM audit ORDER BY txid, seq LIMIT $4) AS first
    WHERE at < $1
    UNION (
        SELECT a.txid, a.seq FROM audit a, surplus s
        WHERE a.outcome = 'done' AND (a.txid, a.seq) <= (s.txid, s.seq)
        ORDER BY a.txid, a.seq LIMIT $4
    )
    UNION (
        SELECT a.txid, a.seq FROM audit a, surplus_refused s
        WHERE a.outcome = 'refused' AND (a.txid, a.seq) <= (s.txid, s.seq)
        ORDER BY a.txid, a.seq LIMIT $4
    )
), gone AS (
    DELETE FROM audit a USING old o WHERE (a.txid, a.seq) = (o.txid, o.seq)
    RETURNING a.txid, a.seq
), last AS (
    SELECT txid, seq FROM gone ORDER BY txid DESC, seq DESC LIMIT 1
), moved AS (
    UPDATE node SET dropped_audit_txid = last.txid, dropped_audit_seq = last.seq FROM last
    WHERE (dropped_audit_txid, dropped_audit_seq) < (last.txid, last.seq)
)
SELECT count(*) FROM gone
