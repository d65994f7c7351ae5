-- name: read
-- The URLs of the sources of links that are pinned to authorities, or else those of catalogs that
-- they took groups over to, one of each.
SELECT authority, coalesce(min(source), min(peer)) AS base
FROM (
    SELECT authority, nullif(definition ->> 'source', '') AS source, NULL AS peer FROM links
    UNION ALL
    SELECT authority, NULL, peer FROM handovers WHERE role = 'give' AND state IN ('given', 'done')
) AS known
WHERE authority = ANY ($1::text[]) GROUP BY authority
