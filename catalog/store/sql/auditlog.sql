-- name: before
-- The positions of rows before a position that meet some conditions, where they are not null, the
-- newest first. $8 are rules: a row needs a target in a group that one of them names. $10 is a path:
-- a row is about it, or about something below it.
SELECT txid, seq FROM audit
WHERE (txid, seq) < ($1, $2)
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR interaction = $6) AND ($7::text IS NULL OR outcome = $7)
    AND ($8::text[] IS NULL
            AND ($10::text IS NULL OR path = $10 OR starts_with(path, $10 || '/'))
        OR EXISTS (
            SELECT FROM unnest(targets) AS t (target)
            WHERE ($10 IS NULL OR target = $10 OR starts_with(target, $10 || '/'))
                AND ($8 IS NULL OR EXISTS (
                    SELECT FROM access_paths p WHERE p.rule = ANY ($8)
                        AND (p.path = access_group(target) OR access_group(target) LIKE p.pattern)
                ))))
ORDER BY txid DESC, seq DESC
LIMIT $9

-- name: before_at
-- The same for a path in a group or resource ($11), which the index has.
SELECT txid, seq FROM audit
WHERE (txid, seq) < ($1, $2)
    AND places @> ARRAY[$11]
    AND ($8::text[] IS NULL AND (path = $10 OR starts_with(path, $10 || '/')) OR EXISTS (
        SELECT FROM unnest(targets) AS t (target)
        WHERE (target = $10 OR starts_with(target, $10 || '/'))
            AND ($8 IS NULL OR EXISTS (
                SELECT FROM access_paths p WHERE p.rule = ANY ($8)
                    AND (p.path = access_group(target) OR access_group(target) LIKE p.pattern)))))
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR interaction = $6) AND ($7::text IS NULL OR outcome = $7)
ORDER BY txid DESC, seq DESC
LIMIT $9

-- name: after
-- The same after a position in log order, up to the first transaction still running.
SELECT txid, seq FROM audit
WHERE (txid, seq) > ($1, $2) AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR interaction = $6) AND ($7::text IS NULL OR outcome = $7)
    AND ($8::text[] IS NULL
            AND ($10::text IS NULL OR path = $10 OR starts_with(path, $10 || '/'))
        OR EXISTS (
            SELECT FROM unnest(targets) AS t (target)
            WHERE ($10 IS NULL OR target = $10 OR starts_with(target, $10 || '/'))
                AND ($8 IS NULL OR EXISTS (
                    SELECT FROM access_paths p WHERE p.rule = ANY ($8)
                        AND (p.path = access_group(target) OR access_group(target) LIKE p.pattern)
                ))))
ORDER BY txid, seq
LIMIT $9

-- name: after_at
-- The same for a path in a group or resource ($11), which the index has.
SELECT txid, seq FROM audit
WHERE (txid, seq) > ($1, $2) AND txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    AND places @> ARRAY[$11]
    AND ($8::text[] IS NULL AND (path = $10 OR starts_with(path, $10 || '/')) OR EXISTS (
        SELECT FROM unnest(targets) AS t (target)
        WHERE (target = $10 OR starts_with(target, $10 || '/'))
            AND ($8 IS NULL OR EXISTS (
                SELECT FROM access_paths p WHERE p.rule = ANY ($8)
                    AND (p.path = access_group(target) OR access_group(target) LIKE p.pattern)))))
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR $5 IN (name, kind, kind || ':' || name))
    AND ($6::text IS NULL OR interaction = $6) AND ($7::text IS NULL OR outcome = $7)
ORDER BY txid, seq
LIMIT $9

-- name: told
-- The rows at some positions, in their order, each with $5 of its targets: those at and below a path
-- ($3) before others. Those that none of the rules $4 names are left out, unless the rules are null.
SELECT a.txid, a.seq, a.at, a.outcome, a.kind, a.name, a.issuer, a.address, a.agent, a.method,
    a.path, a.interaction, a.changed, a.status, a.reason, a.attempts, t.targets, t.actions
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS w (txid, seq, place)
JOIN audit a ON (a.txid, a.seq) = (w.txid, w.seq)
CROSS JOIN LATERAL (
    SELECT array_agg(f.target ORDER BY f.number) AS targets,
        array_agg(f.action ORDER BY f.number) AS actions
    FROM (
        SELECT target, action, number,
            coalesce(target <> $3 AND NOT starts_with(target, $3 || '/'), false) AS is_other
        FROM unnest(a.targets, a.actions) WITH ORDINALITY AS u (target, action, number)
        WHERE $4::text[] IS NULL OR EXISTS (
            SELECT FROM access_paths WHERE rule = ANY ($4)
                AND (path = access_group(target) OR access_group(target) LIKE pattern))
        ORDER BY is_other, number
        LIMIT $5
    ) AS f
) AS t
ORDER BY w.place

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
