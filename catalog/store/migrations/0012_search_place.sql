-- A search in one collection reads what is there alone: where an entity is belongs to what is indexed.

-- The collection of groups, or that of resources, which an entity is in or below.
CREATE FUNCTION search_place(xid text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE split_part(xid, '/', 4)
    WHEN '' THEN '/' || split_part(xid, '/', 2)
    ELSE '/' || split_part(xid, '/', 2) || '/' || split_part(xid, '/', 3)
        || '/' || split_part(xid, '/', 4)
END;

CREATE OR REPLACE FUNCTION search_document(xid text, id text, attributes jsonb)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower((attributes || jsonb_object(ARRAY[
    '$id', coalesce(nullif(split_part(xid, '/', 5), ''), id),
    '$vid', id,
    '$in', search_place(xid)
]))::text)::jsonb;

REINDEX INDEX entities_search;
