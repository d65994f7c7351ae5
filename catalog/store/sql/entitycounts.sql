-- name: share_of_sample
-- The share of the search index, in percent, that has some number of pages of the database.
SELECT least(100, 100.0 * $1 / greatest(pg_relation_size('public.search_index') / 8192, 1))::real

-- name: sample
-- The numbers of groups and resources by type, authority and format, in a share of the index.
SELECT type, authority, format, count(*) AS number
FROM search_index TABLESAMPLE SYSTEM ($1)
WHERE is_listed
GROUP BY type, authority, format

-- name: count_first
-- The numbers of groups and resources by type, authority and format, among the first.
SELECT type, authority, format, count(*) AS number
FROM (SELECT type, authority, format FROM search_index WHERE is_listed LIMIT $1) AS seen
GROUP BY type, authority, format
