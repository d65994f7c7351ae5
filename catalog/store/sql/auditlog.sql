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

-- name: has_more
-- Whether there are more than $2 rows about an outcome.
SELECT EXISTS (SELECT FROM audit WHERE outcome = $1 OFFSET $2)

-- name: old
-- The first $2 rows, as far as they are from before $1.
SELECT txid, seq FROM (SELECT txid, seq, at FROM audit ORDER BY txid, seq LIMIT $2) AS first
WHERE at < $1

-- name: surplus
-- Up to $3 rows about an outcome beyond $2 in all: the oldest ones of the callers that have more
-- than their share. What callers with fewer rows leave of theirs is shared by the others.
WITH callers AS (
    SELECT kind, name, issuer, count(*) AS entries,
        row_number() OVER few AS place, count(*) OVER () AS number,
        coalesce(sum(count(*)) OVER (few ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
            AS taken
    FROM audit WHERE outcome = $1
    GROUP BY kind, name, issuer
    WINDOW few AS (ORDER BY count(*), kind, name, issuer)
), share AS (
    SELECT div($2 - taken, number - place + 1)::bigint AS entries FROM callers
    WHERE div($2 - taken, number - place + 1) < entries
    ORDER BY place LIMIT 1
)
SELECT own.txid, own.seq FROM share
JOIN callers ON callers.entries > share.entries
CROSS JOIN LATERAL (
    SELECT txid, seq FROM audit a
    WHERE a.outcome = $1
        AND (a.kind, a.name, a.issuer) = (callers.kind, callers.name, callers.issuer)
    ORDER BY txid, seq LIMIT callers.entries - share.entries
) AS own
LIMIT $3

-- name: drop
-- Delete some rows, and remember the last one; how many.
WITH gone AS (
    DELETE FROM audit a USING unnest($1::bigint[], $2::bigint[]) AS o (txid, seq)
    WHERE (a.txid, a.seq) = (o.txid, o.seq)
    RETURNING a.txid, a.seq
), last AS (
    SELECT txid, seq FROM gone ORDER BY txid DESC, seq DESC LIMIT 1
), moved AS (
    UPDATE node SET dropped_audit_txid = last.txid, dropped_audit_seq = last.seq FROM last
    WHERE (dropped_audit_txid, dropped_audit_seq) < (last.txid, last.seq)
)
SELECT count(*) FROM gone
