-- name: begin
-- Read in index order from here to the end of the transaction, and name what it sees: the last
-- transaction in the log, and those before it that may still come.
SELECT last.txid, ARRAY(
        SELECT open.txid FROM pg_snapshot_xip(pg_current_snapshot()) AS open (txid)
        WHERE open.txid::text::bigint < last.txid
    )::text AS missing,
    set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true)
FROM (SELECT coalesce(max(txid), 0) AS txid FROM changes) AS last

-- name: range
-- A range of the tree in its order: entities of some kinds, of some types of resources.
SELECT xid, kind, authority, origin, epoch, attributes, createdat, modifiedat, digest,
    document_sha256
FROM entities
WHERE replace(lower(xid), '/', E'\x01') COLLATE "C" > $1
    AND replace(lower(xid), '/', E'\x01') COLLATE "C" < $2
    AND kind = ANY ($3::text[])
    AND ($4::text[] IS NULL OR kind = 'group' OR split_part(xid, '/', 4) = ANY ($4))
ORDER BY replace(lower(xid), '/', E'\x01') COLLATE "C"

-- name: collection
-- A whole collection in the order of ids.
SELECT xid, kind, authority, origin, epoch, attributes, createdat, modifiedat, digest,
    document_sha256
FROM entities
WHERE collection = $1
ORDER BY lower(id) COLLATE "C"

-- name: sizes
-- How many bytes the documents of these versions have.
SELECT xid, octet_length(body) AS size FROM documents WHERE xid = ANY ($1::text[])

-- name: parts
-- Entities alone, and others with all below each, in the order of the tree; the sort is of
-- what is asked for only.
SELECT e.xid, e.kind, e.authority, e.origin, e.epoch, e.attributes, e.createdat, e.modifiedat,
    e.digest, e.document_sha256
FROM (
    SELECT * FROM entities WHERE xid = ANY ($1::text[])
    UNION ALL
    SELECT whole.* FROM unnest($2::text[]) AS root (xid)
    CROSS JOIN LATERAL (
        SELECT * FROM entities AS own WHERE own.xid = root.xid
        UNION ALL
        SELECT * FROM entities AS below
        WHERE below.xid >= root.xid || '/' AND below.xid < root.xid || '0'
    ) AS whole
) AS e
WHERE e.kind = ANY ($3::text[])
    AND ($4::text[] IS NULL OR e.kind = 'group' OR split_part(e.xid, '/', 4) = ANY ($4))
ORDER BY replace(lower(e.xid), '/', E'\x01') COLLATE "C"
