-- name: is_lost
-- Whether the source of a link has lost data, and the link has not caught up with it since.
SELECT loss IS NOT NULL FROM links WHERE id = $1 AND revision = $2

-- name: read
-- The entities that a link has lost so far, or is allowed to lose.
SELECT authority, origin, state FROM link_losses WHERE link = $1 AND state <> 'asked'

-- name: add
-- Count entities that are deleted with what a link has lost, unless they are allowed to go.
INSERT INTO link_losses (link, authority, origin, state)
SELECT $1, authority, origin, 'gone' FROM unnest($2::text[], $3::text[]) AS o (authority, origin)
ON CONFLICT DO NOTHING

-- name: come_back
-- Count entities no longer that have come back.
DELETE FROM link_losses l USING unnest($2::text[], $3::text[]) AS o (authority, origin)
WHERE l.link = $1 AND l.state = 'gone' AND l.authority = o.authority AND l.origin = o.origin

-- name: ask
-- Store the question of a link, and that $5 copies or more are to come; tell the digest of the
-- question that it asked before.
WITH before AS (SELECT question ->> 'digest' AS digest FROM links WHERE id = $1)
UPDATE links SET state = 'asking', error = $4, question = $3::jsonb,
    behind = greatest(coalesce(behind, 0), $5)
WHERE id = $1 AND revision = $2
RETURNING coalesce((SELECT digest FROM before), '') AS digest

-- name: forget_asked
-- Forget what an earlier question was about.
DELETE FROM link_losses WHERE link = $1 AND state = 'asked'

-- name: store_asked
-- Store what a question is about.
INSERT INTO link_losses (link, authority, origin, state)
SELECT $1, authority, origin, 'asked' FROM unnest($2::text[], $3::text[]) AS o (authority, origin)
ON CONFLICT (link, authority, origin) DO UPDATE SET state = 'asked'
    WHERE link_losses.state = 'gone'

-- name: allow
-- Let a link lose what it asks about. One that brings copies follows its source as it is now, whose
-- word replaces what is here whatever the epochs.
WITH allowed AS (
    UPDATE link_losses SET state = 'allowed' WHERE link = $1 AND state = 'asked'
), bringing AS (
    SELECT id FROM links
    WHERE id = $1 AND definition ->> 'mode' IN ('pull', 'events', 'accept', 'kafka')
)
UPDATE links l SET
    question = NULL,
    error = NULL,
    doubts = doubts OR EXISTS (SELECT FROM bringing),
    cursor = CASE WHEN NOT EXISTS (SELECT FROM bringing) THEN cursor END,
    state = CASE WHEN cursor IS NULL OR EXISTS (SELECT FROM bringing) THEN 'new' ELSE 'behind' END
WHERE id = $1 AND revision = $2 AND question IS NOT NULL

-- name: held
-- The number of entities here that a link may bring: those of authorities or, of all, those that
-- this node does not speak for, within a selection.
SELECT count(*) FROM entities e
WHERE e.kind <> 'registry'
    AND CASE WHEN $1::text[] IS NOT NULL THEN e.authority = ANY ($1) ELSE e.authority <> $2 END
    AND is_selected(e.origin, $3, $4)

-- name: read_allowances
-- The digests of what operators have allowed authorities to lose, where that was followed.
SELECT authority, digest FROM allowances WHERE is_followed ORDER BY authority LIMIT 100

-- name: note_allowance
-- Note what an operator of this node has allowed the source of a link to lose.
INSERT INTO allowances (authority, digest, link, is_followed) VALUES ($1, $2, $3, false)
ON CONFLICT (authority) DO UPDATE SET digest = $2, link = $3, is_followed = false

-- name: follow_allowance
-- Note what a relay was allowed, and this node has followed.
INSERT INTO allowances (authority, digest, is_followed) VALUES ($1, $2, true)
ON CONFLICT (authority) DO UPDATE SET digest = $2, link = NULL, is_followed = true
