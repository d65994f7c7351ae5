-- name: restrict
-- The views of the schema `visible` show the groups that these rules name.
SELECT set_config('concord.rules', $1::text[]::text, false)

-- name: restrict_within
-- Have a transaction read the views of the schema `visible`; the answer is the search_path before,
-- which the other calls depend on, so that it is read before them.
SELECT before
FROM current_setting('search_path') AS before,
    set_config('concord.rules', $1::text[]::text, left(before, 0) = '') AS rules,
    set_config('search_path', 'visible, public', left(before, 0) = '') AS path

-- name: end_restriction
-- Have a transaction read the tables again.
SELECT set_config('search_path', $1, true)
