-- name: find
-- The entities that a search finds, in the order of their rank: how many there are up to a bound,
-- the counts of their types, authorities and formats, and the xids of a page.
-- $1 is what an entity has to have, $2 what it has to have in its id to come before all others;
-- $3 and $4 rank by beginnings of words and by whole words, $5 is the id that comes first; $11 says
-- that only deprecated entities are found. A resource is deprecated by its own attributes, and its
-- default version stands for it.
WITH deprecated AS MATERIALIZED (
    SELECT CASE WHEN kind = 'resource' AND NOT attributes ? 'xref'
        THEN xid || '/versions/' || (attributes ->> 'defaultversionid') ELSE xid END AS xid
    FROM entities WHERE $11::boolean AND attributes ? 'deprecated'
), named AS MATERIALIZED (
    SELECT * FROM search_index
    WHERE is_listed AND words || fields @@ $2::tsquery
        AND ($6::text IS NULL OR authority = $6)
        AND ($7::text IS NULL OR lower(format) = $7 OR starts_with(lower(format), $7 || '/'))
        AND (NOT $11 OR xid IN (SELECT xid FROM deprecated))
    LIMIT $8
), others AS MATERIALIZED (
    SELECT * FROM search_index
    WHERE is_listed AND words || fields @@ $1::tsquery
        AND ($2::tsquery IS NULL OR NOT words || fields @@ $2::tsquery)
        AND ($6::text IS NULL OR authority = $6)
        AND ($7::text IS NULL OR lower(format) = $7 OR starts_with(lower(format), $7 || '/'))
        AND (NOT $11 OR xid IN (SELECT xid FROM deprecated))
    LIMIT greatest($8 - (SELECT count(*) FROM named), 0)
), candidates AS MATERIALIZED (
    SELECT c.*, EXISTS (
        SELECT FROM entities e WHERE e.attributes ? 'deprecated'
            AND e.xid IN (c.xid, regexp_replace(c.xid, '/versions/[^/]+$', ''))
    ) AS is_deprecated
    FROM (SELECT * FROM named UNION ALL SELECT * FROM others) AS c
), facets AS (
    SELECT CASE 0 WHEN grouping(type) THEN 'type' WHEN grouping(authority) THEN 'authority'
            WHEN grouping(format) THEN 'format' ELSE 'deprecated' END AS name,
        coalesce(type, authority, format, deprecated) AS value, count(*) AS count
    FROM (
        SELECT type, authority, format, CASE WHEN is_deprecated THEN 'true' END AS deprecated
        FROM candidates
    ) AS c
    GROUP BY GROUPING SETS ((type), (authority), (format), (deprecated))
), page AS MATERIALIZED (
    SELECT xid, is_deprecated FROM candidates
    ORDER BY lower(split_part(xid, '/', CASE WHEN strpos(type, '/') = 0 THEN 3 ELSE 5 END)) = $5 DESC,
        coalesce(ts_rank(words || fields, $3::tsquery, 1)
            + ts_rank(words || fields, $4::tsquery, 1), 0) DESC,
        xid
    OFFSET $9 LIMIT $10
)
SELECT (SELECT count(*) FROM candidates) AS count,
    (SELECT coalesce(json_agg(f ORDER BY f.count DESC, f.value), '[]') FROM facets f
        WHERE f.value IS NOT NULL) AS facets,
    ARRAY(SELECT xid FROM page) AS xids,
    ARRAY(SELECT xid FROM page WHERE is_deprecated) AS deprecated

-- name: read_seen
-- The groups that the caller of a connection sees: a path, or a pattern.
SELECT path, pattern IS NOT NULL AS is_pattern FROM access_paths
WHERE rule = ANY (current_setting('concord.rules')::text[]) LIMIT $1

-- name: find_referring
-- The entities that meet one of some queries, by which keys are referred to. One query of many keys
-- would be compared with each row of the table.
SELECT e.*
FROM (
    SELECT DISTINCT s.xid FROM unnest($1::text[]) AS k (query)
    CROSS JOIN LATERAL (
        SELECT xid FROM search_index WHERE is_listed AND words || fields @@ k.query::tsquery LIMIT $2
    ) AS s
    LIMIT $2
) AS s
JOIN entities e ON e.xid = s.xid
ORDER BY e.xid

-- name: load_referring
-- Entities, and below them what a search shows: groups, default versions and cross references.
SELECT DISTINCT e.* FROM unnest($1::text[]) AS w (xid)
CROSS JOIN LATERAL (
    SELECT * FROM entities WHERE xid = w.xid
    UNION ALL
    SELECT * FROM entities
    WHERE xid > w.xid || '/' AND xid < w.xid || '0'
        AND (listing IS NOT NULL OR kind = 'resource' AND attributes ? 'xref')
) AS e
ORDER BY e.xid LIMIT $2

-- name: small_documents
-- The documents of some versions, if they are not larger than a number of bytes.
SELECT xid, body FROM documents WHERE xid = ANY ($1::text[]) AND octet_length(body) <= $2

-- name: forget
-- Forget the rows of entities.
DELETE FROM search_index WHERE xid = ANY ($1::text[])

-- name: index
-- The rows of entities that are missing in the index.
INSERT INTO search_index (xid, is_listed, type, authority, format, words, fields)
SELECT e.xid, e.listing IS NOT NULL OR e.kind = 'resource', w.type, e.authority, w.format,
    w.words::tsvector, coalesce(w.fields, '')::tsvector
FROM json_to_recordset($1::json) AS w (
    xid text, type text, format text, words text, fields text)
JOIN entities e ON e.xid = w.xid
ON CONFLICT (xid) DO NOTHING
