-- name: following
-- The links whose sources are pinned to an authority.
SELECT id FROM bringing_links WHERE authority = $1 ORDER BY id

-- name: pinned_to
-- The definitions of the links whose sources are pinned to authorities (null stands for any).
SELECT authority, definition FROM bringing_links
WHERE authority IS NOT NULL AND ($1::text[] IS NULL OR authority = ANY ($1))

-- name: claim
-- The link to another source that is pinned to an authority; whether another link to the same
-- source is; whether entities or definitions of links here are of it.
SELECT (
        SELECT min(id) FROM bringing_links
        WHERE authority = $2 AND definition ->> 'source' IS DISTINCT FROM $3 AND id <> $1
    ) AS rival,
    EXISTS (
        SELECT FROM bringing_links
        WHERE authority = $2 AND definition ->> 'source' = $3 AND id <> $1
    ) AS is_shared,
    EXISTS (SELECT FROM entities WHERE authority = $2)
        OR EXISTS (SELECT FROM tombstones WHERE authority = $2)
        OR EXISTS (SELECT FROM links WHERE id <> $1 AND definition -> 'authorities' ? $2)
    AS is_known

-- name: authorities_at
-- The authorities at a base URL: those of links that lead there, or else the only source that
-- names the base as its own.
SELECT authority FROM bringing_links
WHERE definition ->> 'source' = $1 AND authority IS NOT NULL
UNION
SELECT min(authority) FROM bringing_links WHERE base = $1
    AND NOT EXISTS (SELECT FROM bringing_links WHERE definition ->> 'source' = $1 OR authority = $1)
HAVING count(DISTINCT authority) = 1

-- name: bringing
-- The links that may bring entities of an authority: its own, and relays of all or of it.
SELECT l.*, 0 AS conflicts FROM links l
WHERE l.definition ->> 'mode' NOT IN ('push', 'publish', 'write') AND l.authority IS NOT NULL
    AND (l.authority = $1 OR l.definition -> 'authorities' ?| ARRAY[$1, '*'])
ORDER BY l.id

-- name: sending
-- The links that send entities to catalogs that are known by now.
SELECT l.*, 0 AS conflicts FROM links l
WHERE l.definition ->> 'mode' IN ('push', 'publish', 'write') AND l.authority IS NOT NULL
ORDER BY l.id

-- name: bases
-- The URLs of the sources of links that are pinned to authorities, or else those of catalogs that
-- they took groups over to, one of each.
SELECT authority, coalesce(min(source), min(peer)) AS base
FROM (
    SELECT authority, nullif(definition ->> 'source', '') AS source, NULL AS peer FROM links
    UNION ALL
    SELECT authority, NULL, peer FROM handovers WHERE role = 'give' AND state IN ('given', 'done')
) AS known
WHERE authority = ANY ($1::text[]) GROUP BY authority

-- name: progress
-- How far this node is: its configuration, the last change that was committed, the transaction that
-- begins next. Each row has one of the links whose sources are instances with an id that begins with
-- one of $1, or are not known yet; or it has none.
SELECT n.revision, newest.txid, newest.seq,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_txid,
    l.id, left(l.instance::text, 8) AS instance, coalesce(l.definition ->> 'source', '') AS source, l.cursor,
    l.state
FROM node n
LEFT JOIN LATERAL (
    SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true
LEFT JOIN links l ON l.instance IS NULL OR left(l.instance::text, 8) = ANY ($1::text[])
ORDER BY l.id
