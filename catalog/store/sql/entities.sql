-- name: lock_and_load
-- Lock what an interaction touches, then read it; the patience has to be known by then.
SELECT (entity).*, is_referred, has_lived
FROM set_config('lock_timeout', $7, true) AS patience
CROSS JOIN LATERAL lock_and_load($1, $2, $3, $4, $5, CASE WHEN patience <> '' THEN $6::bigint END)

-- name: load
-- Entities by xid, without their documents.
SELECT * FROM entities WHERE xid = ANY ($1::text[])

-- name: load_by_origin
-- Entities of other xids than expected: by authority and origin.
SELECT e.* FROM entities e
JOIN unnest($1::text[], $2::text[]) AS o (authority, origin) USING (authority, origin)

-- name: load_tombstones
-- Tombstones by authority and origin.
SELECT t.* FROM tombstones t
JOIN unnest($1::text[], $2::text[]) AS o (authority, origin) USING (authority, origin)

-- name: numbers_of_deleted_versions
-- The numbers that were ids of versions which were deleted while their resources have lived.
SELECT r.xid AS resource, range_agg(int8range(v.number, v.number, '[]')) AS numbers
FROM entities r
JOIN tombstones t ON t.authority = $1
    AND t.origin > r.xid || '/versions/' AND t.origin < r.xid || '/versions0'
    AND t.deletedat >= r.createdat
CROSS JOIN LATERAL (SELECT substr(t.origin, length(r.xid) + 11)::bigint AS number) AS v
WHERE r.xid = ANY ($2::text[]) AND substr(t.origin, length(r.xid) + 11) ~ '^[0-9]{1,15}$'
GROUP BY r.xid

-- name: load_subtrees
-- Some entities and everything below each, parents first.
SELECT e.*
FROM unnest($1::text[]) WITH ORDINALITY AS root (xid, position)
CROSS JOIN LATERAL (
    SELECT * FROM entities AS own WHERE own.xid = root.xid
    UNION ALL
    SELECT * FROM entities AS below
    WHERE below.xid >= root.xid || '/' AND below.xid < root.xid || '0'
) AS e
ORDER BY root.position, e.xid

-- name: load_shown
-- Resources, each with its default version and its number of versions.
SELECT * FROM resources_shown WHERE xid = ANY ($1::text[])

-- name: load_one_shown
-- The same of one: for a list of any length, PostgreSQL would plan each time.
SELECT * FROM resources_shown WHERE xid = $1

-- name: page
-- One page of a collection in the order of ids, after one id.
SELECT * FROM entities
WHERE collection = $1 AND lower(id) COLLATE "C" > $2
ORDER BY lower(id) COLLATE "C"
LIMIT $3

-- name: page_resources
-- One page of resources, each with its default version and its number of versions.
SELECT shown.*
FROM (
    SELECT xid FROM entities
    WHERE collection = $1 AND lower(id) COLLATE "C" > $2
    ORDER BY lower(id) COLLATE "C"
    LIMIT $3
) AS page
JOIN resources_shown shown USING (xid)
ORDER BY lower(shown.id) COLLATE "C"

-- name: load_ids
-- The ids of everything in a collection.
SELECT id FROM entities WHERE collection = $1

-- name: find_by_key
-- The group or resource with a short URL's key.
SELECT xid FROM entities WHERE short_key(xid) = $1 AND kind IN ('group', 'resource')

-- name: count_collections
-- How many entities each of these collections holds; empty ones are not listed.
SELECT collection, count(*) AS count FROM entities
WHERE collection = ANY ($1::text[]) GROUP BY collection

-- name: documents
-- The documents of several versions.
SELECT xid, body FROM documents WHERE xid = ANY ($1::text[])

-- name: write
-- Entities and change rows; the answer is the transaction that the log shows them under.
WITH logged AS (
    INSERT INTO changes (
        interaction, at, xid, kind, action, authority, origin, epoch, digest, changed, deprecation)
    SELECT c.interaction, c.at, c.xid, c.kind, c.action, c.authority, c.origin, c.epoch,
        decode(c.digest, 'hex'), c.changed, c.deprecation
    FROM ROWS FROM (json_to_recordset($2::json) AS (
        interaction text, at timestamptz, xid text, kind text, action text, authority text, origin text, epoch bigint, digest text,
        changed text[], deprecation text[]
    )) WITH ORDINALITY AS c (
        interaction, at, xid, kind, action, authority, origin, epoch, digest, changed, deprecation,
        position)
    ORDER BY c.position
), kept AS (
    INSERT INTO entities (
        xid, collection, id, kind, authority, origin, epoch, attributes, createdat, modifiedat,
        document_sha256, digest, fingerprint, bucket, listing, listing_id)
    SELECT e.xid, e.collection, e.id, e.kind, e.authority, e.origin, e.epoch, e.attributes,
        e.createdat, e.modifiedat, decode(e.document_sha256, 'hex'), decode(e.digest, 'hex'),
        e.fingerprint, e.bucket,
        CASE WHEN listed.here THEN e.listing END, CASE WHEN listed.here THEN e.listing_id END
    FROM json_to_recordset($1::json) AS e (
        xid text, collection text, id text, kind text, authority text, origin text, epoch bigint,
        attributes jsonb, createdat timestamptz, modifiedat timestamptz, document_sha256 text,
        digest text, fingerprint bigint, bucket integer, listing text, listing_id text,
        is_listed boolean)
    CROSS JOIN LATERAL (SELECT coalesce(e.is_listed, (
        SELECT r.attributes ->> 'defaultversionid' = e.id
        FROM entities r WHERE r.xid = left(e.collection, -9)
    )) AS here) AS listed
    ON CONFLICT (xid) DO UPDATE SET
        authority = excluded.authority, origin = excluded.origin, epoch = excluded.epoch,
        attributes = excluded.attributes, createdat = excluded.createdat,
        modifiedat = excluded.modifiedat, document_sha256 = excluded.document_sha256,
        digest = excluded.digest, fingerprint = excluded.fingerprint, bucket = excluded.bucket,
        listing = excluded.listing, listing_id = excluded.listing_id
)
SELECT pg_current_xact_id()::text::bigint

-- name: relist
-- List the default versions of resources that were just written, and no other versions of them.
WITH former AS (
    UPDATE entities v SET listing = NULL, listing_id = NULL
    FROM unnest($1::text[], $2::text[], $3::text[]) AS r (listing, listing_id, default_xid)
    WHERE v.listing = r.listing AND v.listing_id = r.listing_id AND v.xid <> r.default_xid
)
UPDATE entities v SET listing = r.listing, listing_id = r.listing_id
FROM unnest($1::text[], $2::text[], $3::text[]) AS r (listing, listing_id, default_xid)
WHERE v.xid = r.default_xid AND v.listing IS NULL

-- name: bury
-- Entities that are deleted, and what is remembered of them.
WITH gone AS (
    DELETE FROM entities e USING unnest($3::text[], $4::text[]) AS o (authority, origin)
    WHERE e.authority = o.authority AND e.origin = o.origin
)
INSERT INTO tombstones (xid, kind, authority, origin, epoch, digest, bucket, deletedat)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::integer[],
    $8::timestamptz[])
ON CONFLICT (authority, origin) DO UPDATE SET
    xid = excluded.xid, epoch = excluded.epoch, digest = excluded.digest,
    deletedat = excluded.deletedat

-- name: revive
-- Forget the tombstones of entities that live again.
DELETE FROM tombstones t USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE t.authority = o.authority AND t.origin = o.origin

-- name: write_documents
-- The documents of versions that were just written.
INSERT INTO documents (xid, body) SELECT * FROM unnest($1::text[], $2::bytea[])
ON CONFLICT (xid) DO UPDATE SET body = excluded.body

-- name: drop_documents
-- Documents that versions no longer have.
DELETE FROM documents WHERE xid = ANY ($1::text[])
