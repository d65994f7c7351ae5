-- name: write
-- Entities and change rows, with who made the changes, the words of the entities, and the contents
-- that are replaced; the answer is the place of the last change in the log, if there is one.
WITH logged AS (
    INSERT INTO changes (
        interaction, at, xid, kind, action, authority, origin, epoch, digest, changed, deprecation,
        traceparent, tracestate, author)
    SELECT c.interaction, c.at, c.xid, c.kind, c.action, c.authority, c.origin, c.epoch,
        decode(c.digest, 'hex'), c.changed, c.deprecation, c.traceparent, c.tracestate, c.author
    FROM ROWS FROM (json_to_recordset($2::json) AS (
        interaction text, at timestamptz, xid text, kind text, action text, authority text, origin text, epoch bigint, digest text,
        changed text[], deprecation text[], traceparent text, tracestate text, author jsonb
    )) WITH ORDINALITY AS c (
        interaction, at, xid, kind, action, authority, origin, epoch, digest, changed, deprecation,
        traceparent, tracestate, author, position)
    ORDER BY c.position
    RETURNING txid, seq
), noted AS (
    INSERT INTO audit (
        at, outcome, kind, name, issuer, address, agent, method, path, interaction, actions,
        targets, changed, places)
    SELECT a.at, 'done', a.kind, a.name, a.issuer, a.address, a.agent, a.method, a.path,
        a.interaction, a.actions, a.targets, a.changed, a.places
    FROM json_to_recordset($3::json) AS a (
        at timestamptz, kind text, name text, issuer text, address text, agent text, method text,
        path text, interaction text, actions text[], targets text[], changed integer,
        places text[])
), given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS e (
        xid text, collection text, id text, kind text, authority text, origin text, epoch bigint,
        attributes jsonb, replaced jsonb, createdat timestamptz, modifiedat timestamptz,
        document_sha256 text, digest text, fingerprint bigint, bucket integer, listing text,
        listing_id text, is_listed boolean, signature text, signedby text)
), former AS (
    -- A transaction may write an entity twice: the first content stays, with its document.
    INSERT INTO revisions AS r (
        xid, epoch, attributes, createdat, modifiedat, document_sha256, document, size)
    SELECT o.xid, o.epoch, o.attributes, o.createdat, o.modifiedat, o.document_sha256, d.body,
        pg_column_size(o.attributes) + coalesce(octet_length(d.body), 0)
    FROM given g
    JOIN entities o ON o.xid = g.xid
        AND (o.attributes, encode(o.document_sha256, 'hex'))
            IS DISTINCT FROM (g.attributes, g.document_sha256)
    LEFT JOIN documents d ON d.xid = o.xid
        AND encode(o.document_sha256, 'hex') IS DISTINCT FROM g.document_sha256
    WHERE (SELECT revisionsafter IS NOT NULL FROM node)
    ON CONFLICT (xid, txid) DO UPDATE SET
        document = excluded.document, size = r.size + octet_length(excluded.document)
    WHERE r.document IS NULL AND excluded.document IS NOT NULL
), kept AS (
    INSERT INTO entities (
        xid, collection, id, kind, authority, origin, epoch, attributes, replaced, createdat,
        modifiedat, document_sha256, digest, fingerprint, bucket, listing, listing_id, signature,
        signedby)
    SELECT e.xid, e.collection, e.id, e.kind, e.authority, e.origin, e.epoch, e.attributes,
        e.replaced, e.createdat, e.modifiedat, decode(e.document_sha256, 'hex'),
        decode(e.digest, 'hex'), e.fingerprint, e.bucket,
        CASE WHEN listed.here THEN e.listing END, CASE WHEN listed.here THEN e.listing_id END,
        decode(e.signature, 'hex'), e.signedby
    FROM given e
    CROSS JOIN LATERAL (SELECT coalesce(e.is_listed, (
        SELECT r.attributes ->> 'defaultversionid' = e.id
        FROM entities r WHERE r.xid = left(e.collection, -9)
    )) AS here) AS listed
    ON CONFLICT (xid) DO UPDATE SET
        authority = excluded.authority, origin = excluded.origin, epoch = excluded.epoch,
        attributes = excluded.attributes, replaced = excluded.replaced,
        createdat = excluded.createdat, modifiedat = excluded.modifiedat,
        document_sha256 = excluded.document_sha256,
        digest = excluded.digest, fingerprint = excluded.fingerprint, bucket = excluded.bucket,
        listing = excluded.listing, listing_id = excluded.listing_id,
        signature = excluded.signature, signedby = excluded.signedby
    RETURNING xid, authority, listing IS NOT NULL OR kind = 'resource' AS is_listed
), indexed AS (
    SELECT k.xid, k.is_listed, w.type, k.authority, w.format, w.words::tsvector AS words,
        w.fields::tsvector AS fields
    FROM json_to_recordset($4::json) AS w (
        xid text, type text, format text, words text, fields text)
    JOIN kept k ON k.xid = w.xid
), with_fields AS (
    INSERT INTO search_index AS s (xid, is_listed, type, authority, format, words, fields)
    SELECT * FROM indexed WHERE fields IS NOT NULL
    ON CONFLICT (xid) DO UPDATE SET
        is_listed = excluded.is_listed, authority = excluded.authority, format = excluded.format,
        words = excluded.words, fields = excluded.fields
    WHERE (s.is_listed, s.authority, s.format, s.words, s.fields) IS DISTINCT FROM
        (excluded.is_listed, excluded.authority, excluded.format, excluded.words, excluded.fields)
), without_fields AS (
    -- The document stays, and so do its words. An entity without a row gets one later.
    UPDATE search_index s SET
        is_listed = i.is_listed, authority = i.authority, format = i.format, words = i.words
    FROM indexed i WHERE s.xid = i.xid AND i.fields IS NULL
), unindexed AS (
    -- Resources that are no cross references any more.
    DELETE FROM search_index WHERE xid = ANY ($5::text[])
)
SELECT txid, seq FROM logged ORDER BY seq DESC LIMIT 1

-- name: relist
-- List the default versions of resources that were just written, and no other versions of them.
WITH former AS (
    UPDATE entities v SET listing = NULL, listing_id = NULL
    FROM unnest($1::text[], $2::text[], $3::text[]) AS r (listing, listing_id, default_xid)
    WHERE v.listing = r.listing AND v.listing_id = r.listing_id AND v.xid <> r.default_xid
    RETURNING v.xid, false AS is_listed
), present AS (
    UPDATE entities v SET listing = r.listing, listing_id = r.listing_id
    FROM unnest($1::text[], $2::text[], $3::text[]) AS r (listing, listing_id, default_xid)
    WHERE v.xid = r.default_xid AND v.listing IS NULL
    RETURNING v.xid, true AS is_listed
)
UPDATE search_index s SET is_listed = r.is_listed
FROM (SELECT * FROM former UNION ALL SELECT * FROM present) r
WHERE s.xid = r.xid

-- name: bury
-- Entities that are deleted, and what is remembered of them.
WITH gone AS (
    DELETE FROM entities e USING unnest($3::text[], $4::text[]) AS o (authority, origin)
    WHERE e.authority = o.authority AND e.origin = o.origin
    RETURNING e.xid, e.epoch, e.attributes, e.createdat, e.modifiedat, e.document_sha256
), former AS (
    INSERT INTO revisions AS r (
        xid, epoch, attributes, createdat, modifiedat, document_sha256, document, size)
    SELECT g.xid, g.epoch, g.attributes, g.createdat, g.modifiedat, g.document_sha256, d.body,
        pg_column_size(g.attributes) + coalesce(octet_length(d.body), 0)
    FROM gone g LEFT JOIN documents d ON d.xid = g.xid
    WHERE (SELECT revisionsafter IS NOT NULL FROM node)
    ON CONFLICT (xid, txid) DO UPDATE SET
        document = excluded.document, size = r.size + octet_length(excluded.document)
    WHERE r.document IS NULL AND excluded.document IS NOT NULL
)
INSERT INTO tombstones (
    xid, kind, authority, origin, epoch, digest, bucket, deletedat, signature, signedby)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::integer[],
    $8::timestamptz[], $9::bytea[], $10::text[])
ON CONFLICT (authority, origin) DO UPDATE SET
    xid = excluded.xid, epoch = excluded.epoch, digest = excluded.digest,
    deletedat = excluded.deletedat, is_past = false, signature = excluded.signature,
    signedby = excluded.signedby

-- name: sign_entities
-- Signatures of entities that stay as they are.
UPDATE entities e SET signature = s.signature, signedby = s.signedby
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::text[])
    AS s (authority, origin, digest, signature, signedby)
WHERE e.authority = s.authority AND e.origin = s.origin AND e.digest = s.digest

-- name: sign_tombstones
-- Signatures of tombstones that stay as they are.
UPDATE tombstones t SET signature = s.signature, signedby = s.signedby
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::text[])
    AS s (authority, origin, digest, signature, signedby)
WHERE t.authority = s.authority AND t.origin = s.origin AND t.digest = s.digest

-- name: revive
-- Forget the tombstones of entities that live again.
DELETE FROM tombstones t USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE t.authority = o.authority AND t.origin = o.origin

-- name: begin_lives
-- What lay below resources that live again, and does not, is of the past.
UPDATE tombstones t SET is_past = true
FROM unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE t.authority = o.authority
    AND t.origin > o.origin || '/versions/' AND t.origin < o.origin || '/versions0'

-- name: write_documents
-- The documents of versions that were just written.
INSERT INTO documents (xid, body) SELECT * FROM unnest($1::text[], $2::bytea[])
ON CONFLICT (xid) DO UPDATE SET body = excluded.body

-- name: drop_documents
-- Documents that versions no longer have.
DELETE FROM documents WHERE xid = ANY ($1::text[])
