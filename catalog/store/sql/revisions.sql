-- name: newest
-- The positions of changes before a position, the newest first, that meet some conditions where they
-- are not null. $7 is the author, if published. $8 has changes of parents, too. $10 is the beginning of
-- a type's xids, which are too many for an index.
SELECT txid, seq FROM changes
WHERE (txid, seq) < ($1, $2)
    AND ($3::timestamptz IS NULL OR at >= $3 AND txid >= coalesce((
        SELECT max(p.txid) FROM clock_points p WHERE p.at < $3 - interval '1 day'), 0))
    AND ($4::timestamptz IS NULL OR at < $4) AND ($5::text IS NULL OR authority = $5)
    AND ($6::text IS NULL OR interaction = $6)
    AND ($7::text IS NULL OR $7 IN (
        author ->> 'name', author ->> 'kind', (author ->> 'kind') || ':' || (author ->> 'name')))
    AND action IN ('created', 'updated', 'deleted')
    AND ($8::boolean OR is_own_change(kind, action, changed))
    AND ($10::text IS NULL OR starts_with(xid, $10))
ORDER BY txid DESC, seq DESC
LIMIT $9

-- name: newest_by
-- The same by an author of whom the audit tells, as far as the caller may know: as an admin of the
-- catalog ($11), or of the group by one of the rules $12. The audit leads, since authors may be rare.
SELECT c.txid, c.seq FROM audit a
CROSS JOIN LATERAL (
    SELECT txid, seq FROM changes
    WHERE txid = a.txid AND interaction = a.interaction AND (txid, seq) < ($1, $2)
        AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
        AND ($5::text IS NULL OR authority = $5) AND ($6::text IS NULL OR interaction = $6)
        AND ($10::text IS NULL OR starts_with(xid, $10))
        AND ($11::boolean OR EXISTS (
            SELECT FROM access_paths WHERE rule = ANY ($12::text[])
                AND (path = access_group(changes.xid) OR access_group(changes.xid) LIKE pattern)))
        AND action IN ('created', 'updated', 'deleted')
        AND ($8::boolean OR is_own_change(kind, action, changed))
    OFFSET 0
) AS c
WHERE a.txid <= $1 AND $7 IN (a.name, a.kind, a.kind || ':' || a.name)
    AND ($3::timestamptz IS NULL OR a.at >= $3) AND ($4::timestamptz IS NULL OR a.at < $4)
ORDER BY a.txid DESC, c.seq DESC
LIMIT $9

-- name: newest_at
-- The same for an entity ($12), and for the entities between two xids, whoever tells of the author.
SELECT txid, seq FROM changes c
WHERE (xid = $12 OR xid > $13 AND xid < $14) AND (txid, seq) < ($1, $2)
    AND ($3::timestamptz IS NULL OR at >= $3) AND ($4::timestamptz IS NULL OR at < $4)
    AND ($5::text IS NULL OR authority = $5) AND ($6::text IS NULL OR interaction = $6)
    AND ($7::text IS NULL
        OR $7 IN (author ->> 'name', author ->> 'kind', (author ->> 'kind') || ':' || (author ->> 'name'))
        OR ($10::boolean OR EXISTS (
            SELECT FROM access_paths WHERE rule = ANY ($11::text[])
                AND (path = access_group(c.xid) OR access_group(c.xid) LIKE pattern)
        )) AND EXISTS (
            SELECT FROM audit a WHERE a.txid = c.txid AND a.interaction = c.interaction
                AND $7 IN (a.name, a.kind, a.kind || ':' || a.name)
        ))
    AND action IN ('created', 'updated', 'deleted')
    AND ($8::boolean OR is_own_change(kind, action, changed))
ORDER BY txid DESC, seq DESC
LIMIT $9

-- name: told
-- Changes at some positions, the newest first, with their authors as far as the caller may know them,
-- and whether the content after each is kept, was purged or is gone.
SELECT c.*, coalesce(c.author ->> 'kind', a.kind) AS who_kind,
    CASE WHEN c.author IS NULL THEN a.name ELSE c.author ->> 'name' END AS who_name,
    CASE WHEN c.author IS NULL THEN a.issuer ELSE c.author ->> 'issuer' END AS who_issuer,
    CASE WHEN c.action = 'deleted' THEN NULL
        WHEN r.is_purged THEN 'purged'
        WHEN (r.is_purged IS NOT NULL OR EXISTS (SELECT FROM entities e WHERE e.xid = c.xid))
            AND NOT EXISTS (
                SELECT FROM changes l WHERE l.xid = c.xid AND l.txid > c.txid
                    AND l.txid <= coalesce((SELECT revisionsafter FROM node), l.txid)
            ) THEN 'kept'
        ELSE 'gone' END AS content
FROM unnest($1::bigint[], $2::bigint[]) AS w (txid, seq)
JOIN changes c ON (c.txid, c.seq) = (w.txid, w.seq)
LEFT JOIN LATERAL (
    SELECT kind, name, issuer FROM audit
    WHERE txid = c.txid AND interaction = c.interaction AND ($3 OR EXISTS (
        SELECT FROM access_paths WHERE rule = ANY ($4::text[])
            AND (path = access_group(c.xid) OR access_group(c.xid) LIKE pattern)
    ))
    LIMIT 1
) AS a ON true
LEFT JOIN LATERAL (
    SELECT attributes IS NULL AS is_purged FROM revisions
    WHERE xid = c.xid AND txid > c.txid ORDER BY txid LIMIT 1
) AS r ON true
ORDER BY c.txid DESC, c.seq DESC

-- name: last_with
-- The position of the last change that gave an entity an epoch.
SELECT txid, seq FROM changes WHERE xid = $1 AND epoch = $2 ORDER BY txid DESC, seq DESC LIMIT 1

-- name: content
-- The content that an entity had before a transaction: the one that this or the next transaction
-- replaced, else the present one. A document that the transaction did not replace is in a later row.
-- No row if a content may be missing.
WITH former AS MATERIALIZED (
    SELECT * FROM revisions WHERE xid = $1 AND txid >= $2 ORDER BY txid LIMIT 1
), found AS (
    SELECT xid, txid, epoch, attributes, createdat, modifiedat, document_sha256 FROM former
    UNION ALL
    SELECT xid, NULL, epoch, attributes, createdat, modifiedat, document_sha256 FROM entities
    WHERE xid = $1 AND NOT EXISTS (SELECT FROM former)
)
SELECT f.*, f.attributes IS NULL AS is_purged, coalesce((
        SELECT r.document FROM revisions r
        WHERE r.xid = f.xid AND r.txid >= f.txid AND r.document IS NOT NULL
            AND r.document_sha256 = f.document_sha256
        ORDER BY r.txid LIMIT 1
    ), (
        SELECT d.body FROM documents d JOIN entities e ON e.xid = d.xid
        WHERE d.xid = f.xid AND e.document_sha256 = f.document_sha256
    )) AS document
FROM found f
WHERE NOT EXISTS (
    SELECT FROM changes l WHERE l.xid = $1 AND l.txid >= $2
        AND l.txid <= coalesce((SELECT revisionsafter FROM node), l.txid)
)

-- name: purge
-- Empty the contents of an entity and of the entities between two xids, and forget the copies of these
-- that links could not apply; how many contents.
WITH forgotten AS (
    UPDATE conflicts SET refused = NULL
    WHERE (xid = $1 OR xid > $2 AND xid < $3) AND refused IS NOT NULL
), emptied AS (
    UPDATE revisions SET attributes = NULL, document = NULL, document_sha256 = NULL, size = 0
    WHERE (xid = $1 OR xid > $2 AND xid < $3) AND attributes IS NOT NULL
    RETURNING xid
)
SELECT count(*) FROM emptied

-- name: switch
-- Begin or end to keep contents. Those that were replaced up to this moment may be missing; a second
-- call, in a later transaction, finds those of the transactions that were open at the first one, too.
UPDATE node SET revisionsafter = CASE WHEN NOT $1 THEN NULL
    WHEN revisionsafter IS NULL THEN 9223372036854775807
    ELSE pg_snapshot_xmax(pg_current_snapshot())::text::bigint END
WHERE CASE WHEN $1 THEN revisionsafter IS NULL OR revisionsafter = 9223372036854775807
    ELSE revisionsafter IS NOT NULL END

-- name: drop_oldest
-- Delete up to $2 of the oldest contents: those of changes that are no longer in the log, and those
-- beyond $1 bytes in all; how many.
WITH total AS (
    SELECT coalesce(sum(size), 0) AS bytes FROM revisions
), oldest AS (
    SELECT xid, txid, sum(size) OVER (ORDER BY txid, xid) - size AS older
    FROM (SELECT xid, txid, size FROM revisions ORDER BY txid, xid LIMIT $2) AS first
), gone AS (
    DELETE FROM revisions r USING oldest o, total, node n
    WHERE r.xid = o.xid AND r.txid = o.txid
        AND (o.txid <= n.dropped_txid OR o.older < total.bytes - $1)
    RETURNING r.txid
), moved AS (
    UPDATE node SET revisionsafter = greatest(revisionsafter, (SELECT max(txid) FROM gone))
    WHERE revisionsafter IS NOT NULL AND EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone
