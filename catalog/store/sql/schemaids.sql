-- name: load_contexts
-- The schema groups that are contexts of the Confluent API. Every new schema changes the digest of
-- its group; the hash is that of the settings alone.
SELECT xid, authority, sha256(convert_to(attributes ->> 'confluent', 'UTF8')) AS hash FROM entities
WHERE kind = 'group' AND attributes ? 'confluent' ORDER BY xid

-- name: load_settings
-- Contexts with the hashes of their settings, as in load_contexts.
SELECT *, sha256(convert_to(attributes ->> 'confluent', 'UTF8')) AS hash FROM entities
WHERE xid = ANY ($1::text[]) AND attributes ? 'confluent'

-- name: load_versions
-- The versions of several resources that the Confluent API shows. The subquery hides how many there
-- are, for which the planner would make a plan at every call. `IS NOT NULL` keeps it from reading
-- one of the partial indexes as a whole.
SELECT * FROM entities
WHERE collection = ANY (ARRAY(SELECT unnest($1::text[]))) AND attributes -> 'confluent' IS NOT NULL

-- name: find_by_id
-- The versions in some groups that have a schema id. The subquery is as in load_versions.
SELECT * FROM entities
WHERE access_group(xid) = ANY (ARRAY(SELECT unnest($1::text[])))
    AND attributes #> '{confluent,id}' = to_jsonb($2::bigint)
    AND kind = 'version' AND attributes ? 'confluent'
ORDER BY xid

-- name: find_by_guid
-- The versions in any group that have a schema GUID.
SELECT * FROM entities
WHERE attributes #>> '{confluent,guid}' = $1 AND kind = 'version' AND attributes ? 'confluent'
ORDER BY xid

-- name: find_conflicts
-- The ids that name several schemas within one context, with the first version of each schema. All
-- home groups are one context.
SELECT id, (array_agg(xid ORDER BY xid))[:10] AS xids, (array_agg(subject ORDER BY xid))[:10] AS subjects
FROM (
    SELECT CASE WHEN g.attributes #> '{confluent,home}' = 'true' THEN '' ELSE g.xid END AS context,
        e.attributes #> '{confluent,id}' AS id, min(e.xid) AS xid,
        (array_agg(coalesce(e.attributes #>> '{confluent,subject}', split_part(e.xid, '/', 5))
            ORDER BY e.xid))[1] AS subject
    FROM entities g
    JOIN entities e ON access_group(e.xid) = access_group(g.xid) AND e.kind = 'version'
        AND e.attributes ? 'confluent'
    WHERE g.kind = 'group' AND g.attributes ? 'confluent'
    GROUP BY 1, 2, e.attributes #>> '{confluent,guid}'
) AS schemas
WHERE jsonb_typeof(id) = 'number' GROUP BY context, id HAVING count(*) > 1 ORDER BY id LIMIT $1

-- name: find_conflicts_of
-- As find_conflicts, for the ids of some versions.
WITH asked AS (
    SELECT DISTINCT v.attributes #> '{confluent,id}' AS id,
        CASE WHEN g.attributes #> '{confluent,home}' = 'true' THEN '' ELSE g.xid END AS context
    FROM entities v
    JOIN entities g ON access_group(g.xid) = access_group(v.xid) AND g.kind = 'group'
        AND g.attributes ? 'confluent'
    WHERE v.xid = ANY ($1::text[])
)
SELECT id, (array_agg(xid ORDER BY xid))[:10] AS xids, (array_agg(subject ORDER BY xid))[:10] AS subjects
FROM (
    SELECT a.context, a.id, min(e.xid) AS xid,
        (array_agg(coalesce(e.attributes #>> '{confluent,subject}', split_part(e.xid, '/', 5))
            ORDER BY e.xid))[1] AS subject
    FROM asked a
    JOIN entities g ON g.kind = 'group' AND g.attributes ? 'confluent'
        AND a.context = CASE WHEN g.attributes #> '{confluent,home}' = 'true' THEN '' ELSE g.xid END
    JOIN entities e ON access_group(e.xid) = access_group(g.xid) AND e.kind = 'version'
        AND e.attributes ? 'confluent' AND e.attributes #> '{confluent,id}' = a.id
    GROUP BY 1, 2, e.attributes #>> '{confluent,guid}'
) AS schemas
WHERE jsonb_typeof(id) = 'number' GROUP BY context, id HAVING count(*) > 1 ORDER BY id LIMIT $2

-- name: find_referring
-- The versions that refer to a version of a subject, by one of its names.
SELECT * FROM entities
WHERE attributes #> '{confluent,references}' @> ANY ($1::jsonb[])
    AND kind = 'version' AND attributes ? 'confluent'
    AND access_group(xid) = ANY (ARRAY(SELECT unnest($2::text[])))

-- name: find_without_id
-- Versions of an authority in its contexts that native clients wrote, and that have no schema id.
SELECT e.* FROM entities g
JOIN entities e ON access_group(e.xid) = access_group(g.xid) AND e.authority = $1
    AND e.kind = 'version' AND starts_with(e.xid, '/schemagroups/')
    AND NOT e.attributes ? 'confluent' AND e.document_sha256 IS NOT NULL
WHERE g.kind = 'group' AND g.attributes ? 'confluent' AND g.authority = $1
    AND split_part(e.xid, '/versions/', 2) ~ '^[1-9][0-9]{0,8}$' AND NOT e.digest = ANY ($2::bytea[])
    AND lower(split_part(e.attributes ->> 'format', '/', 1)) = ANY ($4::text[])
ORDER BY e.createdat, e.xid LIMIT $3

-- name: list_subjects
-- The resources in some groups that have versions for the Confluent API.
SELECT collection, min(attributes #>> '{confluent,subject}') AS name,
    bool_and(coalesce(attributes #> '{confluent,deleted}' = 'true', false)) AS is_deleted
FROM entities
WHERE access_group(xid) = ANY ($1::text[]) AND kind = 'version' AND attributes ? 'confluent'
GROUP BY collection

-- name: read_registration
-- What a registration depends on: the states of the contexts and of the versions that the subject
-- may mean, whether a version has the GUID, the id of a resource that equals the new one in any case,
-- the counter of the group, and the highest id in its range, as JSON. A new schema takes the next id
-- right here, if the counter is of the instance $8 and nothing else can be the next id.
WITH same AS (
    SELECT FROM entities
    WHERE attributes #>> '{confluent,guid}' = $2 AND kind = 'version' AND attributes ? 'confluent'
    LIMIT 1
), taken AS (
    UPDATE schemaids SET next = next + 1
    WHERE xid = $5 AND instance = $8 AND next > $6 AND next < $7 AND NOT EXISTS (SELECT FROM same)
    RETURNING next - 1 AS id
)
SELECT
    ARRAY(
        SELECT xid || ' ' || authority || ' '
            || encode(sha256(convert_to(attributes ->> 'confluent', 'UTF8')), 'hex')
        FROM entities WHERE kind = 'group' AND attributes ? 'confluent' ORDER BY xid
    ) AS contexts,
    ARRAY(
        SELECT digest FROM entities
        WHERE collection = ANY (ARRAY(SELECT unnest($1::text[])))
            AND attributes -> 'confluent' IS NOT NULL
        ORDER BY digest
    ) AS versions,
    EXISTS (SELECT FROM same) AS has_guid, (SELECT id FROM taken) AS taken,
    (
        SELECT id FROM entities
        WHERE collection = $3 AND lower(id) COLLATE "C" = lower($4) COLLATE "C" LIMIT 1
    ) AS held_id,
    c.instance, c.next,
    (
        SELECT attributes #> '{confluent,id}' FROM public.entities
        WHERE access_group(xid) = access_group($5)
            AND attributes #> '{confluent,id}' >= to_jsonb($6::bigint)
            AND attributes #> '{confluent,id}' < to_jsonb($7::bigint)
            AND kind = 'version' AND attributes ? 'confluent'
        ORDER BY attributes #> '{confluent,id}' DESC LIMIT 1
    ) AS highest
FROM (VALUES ($5)) AS asked (xid) LEFT JOIN schemaids c ON c.xid = asked.xid

-- name: save_counter
-- The next id of a group, and the instance of the node that counts.
INSERT INTO schemaids (xid, instance, next) VALUES ($1, $2, $3)
ON CONFLICT (xid) DO UPDATE SET instance = excluded.instance, next = excluded.next
