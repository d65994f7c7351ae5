-- name: save
-- Replace the encrypted credential of a link, and what is shown of it.
UPDATE links SET sealed = $2, credential = $3::jsonb WHERE id = $1

-- name: go_on
-- Let a link go on at once from where it is, as another revision.
UPDATE links SET
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    state = CASE WHEN paused IS NOT NULL THEN 'paused'
        WHEN question IS NOT NULL THEN 'asking'
        WHEN cursor IS NULL THEN 'new' ELSE 'behind' END,
    failures = 0,
    nextattemptat = NULL,
    error = CASE WHEN question IS NOT NULL THEN error END
WHERE id = $1
RETURNING id

-- name: leading_to
-- The first link that shows a credential to the catalog at a URL.
SELECT id FROM links
WHERE sealed IS NOT NULL AND $1 IN (definition ->> 'source', definition ->> 'target')
ORDER BY id LIMIT 1
