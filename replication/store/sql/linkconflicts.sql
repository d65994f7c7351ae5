-- name: add
-- Store conflicts, up to a limit, so that no source can fill the disk with them, and the refused
-- copies while fewer than $11 are kept.
INSERT INTO conflicts (link, authority, origin, xid, epoch, verdict, detail, at, refused)
SELECT DISTINCT ON (c.authority, c.origin) $1, c.authority, c.origin, c.xid, c.epoch, c.verdict,
    c.detail, $8::timestamptz, CASE WHEN c.number <= $11 - kept.number THEN c.refused END
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $10::bytea[])
    WITH ORDINALITY AS c (authority, origin, xid, epoch, verdict, detail, refused, number)
CROSS JOIN (
    SELECT count(*) AS number FROM conflicts WHERE link = $1 AND refused IS NOT NULL
) AS kept
WHERE (SELECT count(*) FROM conflicts WHERE link = $1) < $9
ON CONFLICT (link, authority, origin) DO UPDATE SET
    xid = excluded.xid, epoch = excluded.epoch, verdict = excluded.verdict,
    detail = excluded.detail, at = excluded.at, refused = excluded.refused
WHERE (conflicts.epoch, conflicts.verdict, conflicts.detail)
    IS DISTINCT FROM (excluded.epoch, excluded.verdict, excluded.detail)
    OR conflicts.refused IS NULL AND excluded.refused IS NOT NULL

-- name: settle
-- Delete the conflicts of origins, of all links that bring: what is here settles nothing elsewhere.
DELETE FROM conflicts c USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE c.authority = o.authority AND c.origin = o.origin
    AND EXISTS (SELECT FROM bringing_links b WHERE b.id = c.link)

-- name: drop
-- Delete the conflicts of origins that one link has.
DELETE FROM conflicts c USING unnest($2::text[], $3::text[]) AS o (authority, origin)
WHERE c.link = $1 AND c.authority = o.authority AND c.origin = o.origin

-- name: forget
-- Delete all conflicts of a link, since a complete copy comes.
DELETE FROM conflicts WHERE link = $1

-- name: load
-- One page of the conflicts of a link, in the order of origins, after one or from the beginning:
-- of a copy that could not be read, the origin is empty. With $5 each has the refused copy.
SELECT authority, origin, xid, epoch, verdict, detail, at, CASE WHEN $5 THEN refused END AS refused
FROM conflicts
WHERE link = $1 AND ($2::text IS NULL OR (authority, origin) > ($2, $3))
ORDER BY authority, origin LIMIT $4

-- name: verdict
-- The verdict about a copy that a link could not apply.
SELECT verdict FROM conflicts WHERE link = $1 AND authority = $2 AND origin = $3

-- name: small_documents
-- The documents of versions that have at most so many bytes.
SELECT xid, body FROM documents WHERE xid = ANY ($1::text[]) AND octet_length(body) <= $2
