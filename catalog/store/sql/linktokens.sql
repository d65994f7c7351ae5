-- name: save
-- Replace the encrypted token of a link.
UPDATE links SET sealed = $2 WHERE id = $1
