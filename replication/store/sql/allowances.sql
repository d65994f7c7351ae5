-- name: read
-- The digests of what operators have allowed authorities to lose, where that was followed.
SELECT authority, digest FROM allowances WHERE is_followed ORDER BY authority LIMIT 100

-- name: allow
-- Note what an operator of this node has allowed the source of a link to lose.
INSERT INTO allowances (authority, digest, link, is_followed) VALUES ($1, $2, $3, false)
ON CONFLICT (authority) DO UPDATE SET digest = $2, link = $3, is_followed = false

-- name: follow
-- Note what a relay was allowed, and this node has followed.
INSERT INTO allowances (authority, digest, is_followed) VALUES ($1, $2, true)
ON CONFLICT (authority) DO UPDATE SET digest = $2, link = NULL, is_followed = true
