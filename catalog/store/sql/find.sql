-- name: plain
-- One page of a whole collection in the order of ids.
SELECT xid, lower(id) AS id, '' AS text FROM entities
WHERE collection = $1 AND lower(id) COLLATE "C" > $2
ORDER BY lower(id) COLLATE "C" LIMIT $3

-- name: walk_by_id
-- One page in the order of ids, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id FROM listed
    WHERE listing = $1 AND listing_id > $6
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY listing_id LIMIT $7
), others AS (
    SELECT xid, listing_id FROM borrowed
    WHERE listing = $1 AND listing_id > $6
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY listing_id LIMIT $7
)
SELECT xid, listing_id AS id, '' AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY listing_id LIMIT $7

-- name: walk_by_name
-- One page in the order of names, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id, name FROM listed
    WHERE listing = $1 AND (name, listing_id) > ($6, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY name, listing_id LIMIT $8
), others AS (
    SELECT xid, listing_id, name FROM borrowed
    WHERE listing = $1 AND (name, listing_id) > ($6, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY name, listing_id LIMIT $8
)
SELECT xid, listing_id AS id, name AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY name, listing_id LIMIT $8

-- name: walk_by_time
-- One page in the order of changes, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id, modifiedat FROM listed
    WHERE listing = $1 AND (modifiedat, listing_id) > ($6::text::timestamptz, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY modifiedat, listing_id LIMIT $8
), others AS (
    SELECT xid, listing_id, modifiedat FROM borrowed
    WHERE listing = $1 AND (modifiedat, listing_id) > ($6::text::timestamptz, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY modifiedat, listing_id LIMIT $8
)
SELECT xid, listing_id AS id,
    CASE WHEN isfinite(modifiedat) THEN lower(rtrim(search_time(modifiedat), 'Z')) ELSE '' END
        AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY modifiedat, listing_id LIMIT $8

-- name: walk_by_id_desc
-- One page in the order of ids, backwards, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id FROM listed
    WHERE listing = $1 AND listing_id < $6
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY listing_id DESC LIMIT $7
), others AS (
    SELECT xid, listing_id FROM borrowed
    WHERE listing = $1 AND listing_id < $6
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY listing_id DESC LIMIT $7
)
SELECT xid, listing_id AS id, '' AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY listing_id DESC LIMIT $7

-- name: walk_by_name_desc
-- One page in the order of names, backwards, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id, name FROM listed
    WHERE listing = $1 AND (name, listing_id) < ($6, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY name DESC, listing_id DESC LIMIT $8
), others AS (
    SELECT xid, listing_id, name FROM borrowed
    WHERE listing = $1 AND (name, listing_id) < ($6, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY name DESC, listing_id DESC LIMIT $8
)
SELECT xid, listing_id AS id, name AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY name DESC, listing_id DESC LIMIT $8

-- name: walk_by_time_desc
-- One page in the order of changes, backwards, read in this order up to as many matches as it has.
WITH own AS (
    SELECT xid, listing_id, modifiedat FROM listed
    WHERE listing = $1 AND (modifiedat, listing_id) < ($6::text::timestamptz, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY modifiedat DESC, listing_id DESC LIMIT $8
), others AS (
    SELECT xid, listing_id, modifiedat FROM borrowed
    WHERE listing = $1 AND (modifiedat, listing_id) < ($6::text::timestamptz, $7)
        AND ($2::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))
    ORDER BY modifiedat DESC, listing_id DESC LIMIT $8
)
SELECT xid, listing_id AS id,
    CASE WHEN isfinite(modifiedat) THEN lower(rtrim(search_time(modifiedat), 'Z')) ELSE '' END
        AS text
FROM (TABLE own UNION ALL TABLE others) AS all_of_them
ORDER BY modifiedat DESC, listing_id DESC LIMIT $8

-- name: rank
-- One page in the order of any value, out of all matches.
SELECT * FROM (
    SELECT xid, listing_id AS id, search_rank(value) AS rank, search_number(value) AS number,
        search_text(value, $6) AS text
    FROM (
        SELECT xid, listing_id, jsonb_path_query_first(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), '{}', true) AS value
        FROM shown
        WHERE listing = $1 AND ($12::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $13, facts, $14, meta, $15),
            (SELECT lower($12)::jsonpath), (SELECT names FROM search_names), true))
        OFFSET 0
    ) AS valued
) AS ranked
WHERE (rank, number, text COLLATE "C", id) > ($7, $8, $9, $10)
ORDER BY rank, number, text COLLATE "C", id LIMIT $11

-- name: rank_some
-- One page in the order of any value, out of these ids.
SELECT * FROM (
    SELECT xid, listing_id AS id, search_rank(value) AS rank, search_number(value) AS number,
        search_text(value, $6) AS text
    FROM unnest($12::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT xid, listing_id, jsonb_path_query_first(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), '{}', true) AS value
        FROM shown
        WHERE listing = $1 AND listing_id = wanted.id
        OFFSET 0
    ) AS valued
) AS ranked
WHERE (rank, number, text COLLATE "C", id) > ($7, $8, $9, $10)
ORDER BY rank, number, text COLLATE "C", id LIMIT $11

-- name: rank_desc
-- One page in the order of any value, backwards, out of all matches.
SELECT * FROM (
    SELECT xid, listing_id AS id, search_rank(value) AS rank, search_number(value) AS number,
        search_text(value, $6) AS text
    FROM (
        SELECT xid, listing_id, jsonb_path_query_first(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), '{}', true) AS value
        FROM shown
        WHERE listing = $1 AND ($12::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $13, facts, $14, meta, $15),
            (SELECT lower($12)::jsonpath), (SELECT names FROM search_names), true))
        OFFSET 0
    ) AS valued
) AS ranked
WHERE (rank, number, text COLLATE "C", id) < ($7, $8, $9, $10)
ORDER BY rank DESC, number DESC, text COLLATE "C" DESC, id DESC LIMIT $11

-- name: rank_some_desc
-- One page in the order of any value, backwards, out of these ids.
SELECT * FROM (
    SELECT xid, listing_id AS id, search_rank(value) AS rank, search_number(value) AS number,
        search_text(value, $6) AS text
    FROM unnest($12::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT xid, listing_id, jsonb_path_query_first(
            search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
            (SELECT lower($2)::jsonpath), '{}', true) AS value
        FROM shown
        WHERE listing = $1 AND listing_id = wanted.id
        OFFSET 0
    ) AS valued
) AS ranked
WHERE (rank, number, text COLLATE "C", id) < ($7, $8, $9, $10)
ORDER BY rank DESC, number DESC, text COLLATE "C" DESC, id DESC LIMIT $11

-- name: look_up
-- The first matches of a condition in all collections of a kind, by what the search index
-- knows of it, which is where they are, too. `place` keeps the indexes of collections out: with
-- them it would be slower.
SELECT xid, place AS listing, listing_id AS id
FROM (SELECT *, coalesce(listing, '') AS place FROM shown) AS placed
WHERE document @@ (SELECT lower($1)::jsonpath)
    AND left(place, length($6)) = $6 AND split_part(place, '/', $7) = $8
    AND split_part(place, '/', $7 + 1) = ''
    AND jsonb_path_match(
        search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
        (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true)
LIMIT $9

-- name: match
-- The matches of a condition in some collections.
SELECT found.xid, wanted.listing, found.listing_id AS id
FROM unnest($5::text[]) AS wanted (listing)
CROSS JOIN LATERAL (
    SELECT xid, listing_id FROM shown
    WHERE shown.listing = wanted.listing
        AND ($1::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $2, facts, $3, meta, $4),
            (SELECT lower($1)::jsonpath), (SELECT names FROM search_names), true))
    OFFSET 0
) AS found

-- name: hold
-- Which of some entities, by collection and id, meet a condition.
SELECT found.xid, wanted.listing, wanted.id
FROM unnest($5::text[], $6::text[]) AS wanted (listing, id)
CROSS JOIN LATERAL (
    SELECT xid FROM shown
    WHERE shown.listing = wanted.listing AND shown.listing_id = wanted.id
        AND ($1::text IS NULL OR jsonb_path_match(
            search_part(entity_id, version_id, attributes, $2, facts, $3, meta, $4),
            (SELECT lower($1)::jsonpath), (SELECT names FROM search_names), true))
    OFFSET 0
) AS found

-- name: count
-- How many matches a collection has.
SELECT count(*) FROM shown
WHERE listing = $1
    AND ($2::text IS NULL OR jsonb_path_match(
        search_part(entity_id, version_id, attributes, $3, facts, $4, meta, $5),
        (SELECT lower($2)::jsonpath), (SELECT names FROM search_names), true))

-- name: count_plain
-- How many entities a collection has.
SELECT count(*) FROM entities WHERE collection = $1

-- name: messages_of_type
-- The default versions of message definitions with metadata in one of two forms, in lower case.
SELECT xid FROM entities
WHERE kind = 'version' AND listing IS NOT NULL
    AND split_part(xid, '/', 2) IN ('messagegroups', 'endpoints')
    AND (search_document(xid, id, attributes) @> $1::jsonb
        OR search_document(xid, id, attributes) @> $2::jsonb)
ORDER BY xid LIMIT $3
