-- name: read
-- The URLs of the sources of links that are pinned to authorities, one of each.
SELECT authority, min(definition ->> 'source') AS base FROM links
WHERE authority = ANY ($1::text[]) GROUP BY authority
