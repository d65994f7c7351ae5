-- name: restrict
-- The views of the schema `visible` show the groups that these rules name.
SELECT set_config('concord.rules', $1::text[]::text, false)
