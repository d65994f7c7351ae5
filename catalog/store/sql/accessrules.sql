-- name: revision
-- A number that every change of the rules raises.
SELECT access_revision FROM node

-- name: raise_revision
-- Tell all processes that the rules have changed.
UPDATE node SET access_revision = access_revision + 1

-- name: known
-- What all rules are for, but for their paths.
SELECT id, who, role FROM access_rules ORDER BY id

-- name: count
-- How many rules there are, and how many of them somebody has made.
SELECT count(*) AS all_of_them, count(*) FILTER (WHERE createdby = $1) AS own FROM access_rules

-- name: add
-- Keep a rule without paths.
INSERT INTO access_rules (id, who, role, createdat, createdby) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO NOTHING RETURNING id

-- name: change
-- Replace what a rule is for.
UPDATE access_rules SET who = $2, role = $3 WHERE id = $1 RETURNING id

-- name: remove
-- Forget a rule, and its paths.
DELETE FROM access_rules WHERE id = $1 RETURNING id

-- name: find
-- A rule, with the number of its paths.
SELECT r.*, (SELECT count(*) FROM access_paths p WHERE p.rule = r.id) AS pathscount
FROM access_rules r WHERE r.id = $1

-- name: page
-- The rules after an id.
SELECT r.*, (SELECT count(*) FROM access_paths p WHERE p.rule = r.id) AS pathscount
FROM access_rules r WHERE r.id > $1 ORDER BY r.id LIMIT $2

-- name: paths
-- The paths of a rule.
SELECT path FROM access_paths WHERE rule = $1 ORDER BY path

-- name: add_paths
-- Give a rule more paths.
INSERT INTO access_paths (rule, path, pattern) SELECT $1, * FROM unnest($2::text[], $3::text[])
ON CONFLICT (rule, path) DO NOTHING

-- name: clear_paths
-- Take all paths from a rule but these.
DELETE FROM access_paths WHERE rule = $1 AND path <> ALL ($2)

-- name: covered
-- Those of some groups that at least one of these rules names.
SELECT g FROM unnest($2::text[]) g
WHERE access_group(g) LIKE ANY ((
        SELECT array_agg(pattern) FROM access_paths
        WHERE rule = ANY ($1) AND pattern IS NOT NULL
    )::text[])
    OR EXISTS (SELECT FROM access_paths WHERE rule = ANY ($1) AND path = access_group(g))

-- name: remove_for
-- Forget the rules with a condition.
DELETE FROM access_rules WHERE who = $1

-- name: page_within
-- The rules after an id of which other rules name all paths.
SELECT r.*, (SELECT count(*) FROM access_paths p WHERE p.rule = r.id) AS pathscount
FROM access_rules r
WHERE r.id > $1 AND NOT EXISTS (
    SELECT FROM access_paths p
    WHERE p.rule = r.id AND coalesce(p.path NOT LIKE ALL ((
            SELECT array_agg(pattern) FROM access_paths
            WHERE rule = ANY ($3) AND pattern IS NOT NULL
        )::text[]), true)
        AND NOT EXISTS (SELECT FROM access_paths o WHERE o.rule = ANY ($3) AND o.path = p.path)
)
ORDER BY r.id LIMIT $2

-- name: is_within
-- Whether other rules name all paths of a rule.
SELECT NOT EXISTS (
    SELECT FROM access_paths p
    WHERE p.rule = $1 AND coalesce(p.path NOT LIKE ALL ((
            SELECT array_agg(pattern) FROM access_paths
            WHERE rule = ANY ($2) AND pattern IS NOT NULL
        )::text[]), true)
        AND NOT EXISTS (SELECT FROM access_paths o WHERE o.rule = ANY ($2) AND o.path = p.path)
)

-- name: first_paths
-- The first paths of each of some rules.
SELECT p.rule, p.path
FROM unnest($1::text[]) r (id)
CROSS JOIN LATERAL (
    SELECT rule, path FROM access_paths WHERE rule = r.id ORDER BY path LIMIT $2
) p

-- name: digest_paths
-- A digest of the paths of some rules.
SELECT sha256(coalesce(string_agg(rule || ' ' || path, E'\n' ORDER BY rule, path), '')::bytea)
FROM access_paths
WHERE rule = ANY($1::text[])

-- name: grants_for
-- What rules give that have one of some conditions, at the first paths of each.
SELECT r.who, r.role, p.path
FROM access_rules r
CROSS JOIN LATERAL (
    SELECT path FROM access_paths WHERE rule = r.id ORDER BY path LIMIT $2
) p
WHERE r.who = ANY ($1)
ORDER BY r.who, r.id, p.path

-- name: grants_of
-- The first of what rules give that have a condition.
SELECT r.role, p.path
FROM access_rules r
JOIN access_paths p ON p.rule = r.id
WHERE r.who = $1
ORDER BY r.id, p.path
LIMIT $2
