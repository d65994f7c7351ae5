-- name: read
-- What authorities have told of themselves. What a follower has told comes second: a follower names
-- its authority without proof.
SELECT coalesce(p.authority, f.authority) AS authority,
    coalesce(p.card, f.card) AS card,
    CASE WHEN p.card IS NULL THEN f.seenat ELSE p.cardat END AS cardat,
    p.links, p.linksat AS readat, p.triedat, p.error
FROM peer_authorities p
FULL JOIN (
    SELECT DISTINCT ON (authority) authority, card, seenat FROM followers
    WHERE card IS NOT NULL ORDER BY authority, seenat DESC
) AS f ON f.authority = p.authority
WHERE $1::text[] IS NULL OR coalesce(p.authority, f.authority) = ANY ($1)
ORDER BY 1

-- name: save
-- Store what catalogs have told, and when they were asked; what they told before stays where they
-- did not answer. Those that were asked longest ago are dropped beyond $8.
WITH saved AS (
    INSERT INTO peer_authorities (authority, card, cardat, links, linksat, triedat, error)
    SELECT * FROM unnest($1::text[], $2::jsonb[], $3::timestamptz[], $4::jsonb[],
        $5::timestamptz[], $6::timestamptz[], $7::text[])
    ON CONFLICT (authority) DO UPDATE SET
        card = CASE WHEN excluded.cardat IS NULL THEN peer_authorities.card ELSE excluded.card END,
        cardat = coalesce(excluded.cardat, peer_authorities.cardat),
        links = CASE WHEN excluded.linksat IS NULL THEN peer_authorities.links
            ELSE excluded.links END,
        linksat = coalesce(excluded.linksat, peer_authorities.linksat),
        triedat = excluded.triedat,
        error = excluded.error
)
DELETE FROM peer_authorities
WHERE authority <> ALL ($1::text[])
    AND triedat < (SELECT triedat FROM peer_authorities ORDER BY triedat DESC OFFSET $8 LIMIT 1)
