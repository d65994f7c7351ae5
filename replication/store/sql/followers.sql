-- name: save
-- Store what followers have reported, unless another process has stored a later report. Dropped are
-- those that have not reported for $10 days, those that are not among the $9 that reported last, and
-- selections that a follower has not asked for in the hour before its last report.
WITH saved AS (
    INSERT INTO followers (id, authority, identity, card, selection, txid, seq, seenat, instance)
    SELECT r.*, n.instance FROM unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[],
        $6::bigint[], $7::bigint[], $8::timestamptz[]) AS r, node n
    ON CONFLICT (id) DO UPDATE SET
        card = excluded.card, txid = excluded.txid, seq = excluded.seq, seenat = excluded.seenat,
        instance = excluded.instance
    WHERE followers.seenat < excluded.seenat
)
DELETE FROM followers f
WHERE f.id <> ALL ($1::text[]) AND (
    f.seenat < now() - make_interval(days => $10)
    OR f.seenat < (SELECT seenat FROM followers ORDER BY seenat DESC OFFSET $9 LIMIT 1)
    OR EXISTS (
        SELECT FROM unnest($2::text[], $3::text[], $8::timestamptz[])
            AS later (authority, identity, seenat)
        WHERE later.authority = f.authority AND later.identity = f.identity
            AND f.seenat < later.seenat - interval '1 hour'
    )
)

-- name: positions
-- The followers that have reported positions in the log of this instance.
SELECT f.* FROM followers f JOIN node n ON n.instance = f.instance ORDER BY f.authority, f.id

-- name: lags
-- The same, the farthest behind first, with the age of the first change after the position of each:
-- of the authorities that it asks for, if one of the first 1,000 changes is of these.
SELECT f.*, round(
    coalesce(greatest(0, extract(epoch FROM now() - waiting.at)), 0), 1)::float8 AS lag
FROM followers f
JOIN node n ON n.instance = f.instance
LEFT JOIN LATERAL (
    SELECT min(c.at) AS at FROM (
        SELECT at, authority FROM changes
        WHERE (txid, seq) > (f.txid, f.seq) ORDER BY txid, seq LIMIT 1000
    ) AS c
    WHERE f.selection -> 'authorities' = '[]' OR f.selection -> 'authorities' ? c.authority
) AS waiting ON true
ORDER BY lag DESC, f.authority, f.id

-- name: change_of
-- The first change of an entity after a position that has an epoch, or a later one.
SELECT txid, seq FROM changes
WHERE (txid, seq) > ($1, $2) AND xid = ANY ($3::text[]) AND epoch >= $4
ORDER BY txid, seq LIMIT 1

-- name: last_change_of
-- The last change of entities after a position.
SELECT txid, seq FROM changes
WHERE (txid, seq) > ($1, $2) AND xid = ANY ($3::text[])
ORDER BY txid DESC, seq DESC LIMIT 1

-- name: first_missing
-- The first change of an entity among the 20,000 after each of several positions: its time, and the
-- epoch before it.
SELECT c.at, CASE WHEN c.action <> 'created' THEN c.epoch - 1 END AS before
FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS p (txid, seq, number)
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT at, action, epoch, xid FROM changes
        WHERE (txid, seq) > (p.txid, p.seq) ORDER BY txid, seq LIMIT 20000
    ) AS following
    WHERE xid = $1 LIMIT 1
) AS c ON true
ORDER BY p.number
