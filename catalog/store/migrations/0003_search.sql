-- What makes collections searchable: where each entity is listed, what it is found by, and
-- the indexes that pages are read from.

-- `listing` is the collection in which clients see this row's attributes: a group's own, and
-- a default version's is that of its resource. `listing_id` is the id there, in lower case.
ALTER TABLE entities
    ADD COLUMN listing text COLLATE "C",
    ADD COLUMN listing_id text COLLATE "C";

UPDATE entities SET listing = collection, listing_id = lower(id) WHERE kind = 'group';
UPDATE entities v SET listing = r.collection, listing_id = lower(r.id)
FROM entities r
WHERE r.kind = 'resource' AND v.xid = r.xid || '/versions/' || (r.attributes ->> 'defaultversionid');

-- Attributes and ids without regard to case: what equalities are looked up in.
CREATE FUNCTION search_document(xid text, id text, attributes jsonb)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower((attributes || jsonb_object(ARRAY[
    '$id', coalesce(nullif(split_part(xid, '/', 5), ''), id),
    '$vid', id
]))::text)::jsonb;

-- What names are ordered by. An index entry has to be small, so it is their beginning.
CREATE FUNCTION search_name(attributes jsonb)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(lower(coalesce(attributes ->> 'name', '')), 256);

-- A time as clients see it.
CREATE FUNCTION search_time(moment timestamptz)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN rtrim(rtrim(
    to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z';

-- What a row's columns say of an entity that is shown under `xid`.
CREATE FUNCTION search_facts(
    xid text, authority text, epoch bigint, createdat timestamptz, modifiedat timestamptz,
    isdefault boolean
)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
RETURN jsonb_build_object(
    'xid', xid,
    '$authority', authority,
    'epoch', epoch,
    'createdat', search_time(createdat),
    'modifiedat', search_time(modifiedat),
    'isdefault', isdefault);

-- As much of an entity as a condition or an order is about: its ids, those of its attributes
-- that are named (four at most; null stands for all), its facts, its meta entity. To put a
-- whole entity into lower case costs more than everything else that is done with it.
CREATE FUNCTION search_part(
    entity_id text, version_id text, attributes jsonb, names text[],
    facts jsonb, with_facts boolean, meta jsonb, with_meta boolean
)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
RETURN lower((
    CASE WHEN names IS NULL
        THEN attributes || jsonb_build_object('$id', entity_id, '$vid', version_id)
        ELSE jsonb_build_object(
            '$id', entity_id, '$vid', version_id,
            coalesce(names[1], ''), attributes -> names[1],
            coalesce(names[2], ''), attributes -> names[2],
            coalesce(names[3], ''), attributes -> names[3],
            coalesce(names[4], ''), attributes -> names[4])
    END
    || CASE WHEN with_facts THEN facts ELSE '{}' END
    || CASE WHEN with_meta THEN meta ELSE '{}' END
)::text)::jsonb;

-- What a value is ordered by: first its rank, then as a number, then as text. What is
-- missing or empty is lowest; then numbers; then booleans and strings, by their beginning.
CREATE FUNCTION search_rank(value jsonb)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value)
    WHEN 'number' THEN 1 WHEN 'boolean' THEN 2 WHEN 'string' THEN (value <> '""')::integer * 2
    ELSE 0 END;

CREATE FUNCTION search_number(value jsonb)
RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'number' THEN value::numeric ELSE 0 END;

-- `suffix` is what a time ends with: without it, times are in order.
CREATE FUNCTION search_text(value jsonb, suffix text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) IN ('boolean', 'string')
    THEN left(rtrim(value #>> '{}', suffix), 256) ELSE '' END;

CREATE INDEX entities_listing ON entities (listing, listing_id) WHERE listing IS NOT NULL;
CREATE INDEX entities_name ON entities (listing, search_name(attributes) COLLATE "C", listing_id)
    WHERE listing IS NOT NULL;
CREATE INDEX entities_modified ON entities (listing, modifiedat, listing_id)
    WHERE listing IS NOT NULL;
CREATE INDEX entities_search ON entities
    USING gin (search_document(xid, id, attributes) jsonb_path_ops)
    WITH (gin_pending_list_limit = 512)
    WHERE kind <> 'resource';
CREATE INDEX entities_xref ON entities (collection, lower(id) COLLATE "C")
    WHERE kind = 'resource' AND attributes ? 'xref';
CREATE INDEX entities_xref_versions ON entities ((xid || '/versions'))
    WHERE kind = 'resource' AND attributes ? 'xref';

-- The parts of `shown`, below. Each has the entities of some collections: where they are
-- listed, and what they are found and ordered by. `facts` and `meta` are costly: a query that
-- does not use a row's does not work them out.

-- Groups, and resources with the attributes of their default versions. (Other versions are
-- in no listing, so nobody finds them here; a condition that says so would cost an index scan.)
CREATE VIEW listed AS
SELECT e.listing, e.listing_id,
    CASE e.kind WHEN 'group' THEN e.xid ELSE left(e.collection, -9) END AS xid,
    search_name(e.attributes) COLLATE "C" AS name, e.modifiedat,
    search_document(e.xid, e.id, e.attributes) AS document,
    e.listing_id AS entity_id, e.id AS version_id, e.attributes,
    search_facts(
        CASE e.kind WHEN 'group' THEN e.xid ELSE left(e.collection, -9) END,
        e.authority, e.epoch, e.createdat, e.modifiedat, e.kind = 'version' OR NULL
    ) AS facts,
    (
        SELECT jsonb_build_object('$meta', r.attributes || search_facts(
            r.xid || '/meta', r.authority, r.epoch, r.createdat, r.modifiedat, NULL))
        FROM entities r WHERE r.xid = left(e.collection, -9)
    ) AS meta
FROM entities e WHERE e.kind <> 'resource';

-- Resources that are cross references: with the attributes of their targets.
CREATE VIEW borrowed AS
SELECT x.collection AS listing, lower(x.id) COLLATE "C" AS listing_id, x.xid,
    search_name(v.attributes) COLLATE "C" AS name,
    coalesce(v.modifiedat, '-infinity') AS modifiedat,
    search_document(x.xid, v.id, coalesce(v.attributes, '{}')) AS document,
    x.id AS entity_id, v.id AS version_id, coalesce(v.attributes, '{}') AS attributes,
    search_facts(x.xid, x.authority, v.epoch, v.createdat, v.modifiedat, true) AS facts,
    jsonb_build_object(
        '$meta', coalesce(r.attributes, '{}') || x.attributes
        || search_facts(x.xid || '/meta', x.authority, x.epoch, x.createdat, x.modifiedat, NULL)
    ) AS meta
FROM entities x
LEFT JOIN entities r ON r.xid = x.attributes ->> 'xref'
LEFT JOIN entities v ON v.xid = r.xid || '/versions/' || (r.attributes ->> 'defaultversionid')
WHERE x.kind = 'resource' AND x.attributes ? 'xref';

-- The registry and all versions, each in the collection that it is stored in.
CREATE VIEW kept AS
SELECT e.collection AS listing, lower(e.id) COLLATE "C" AS listing_id, e.xid,
    search_name(e.attributes) COLLATE "C" AS name, e.modifiedat,
    search_document(e.xid, e.id, e.attributes) AS document,
    split_part(e.xid, '/', 5) AS entity_id, e.id AS version_id, e.attributes,
    search_facts(
        e.xid, e.authority, e.epoch, e.createdat, e.modifiedat,
        CASE e.kind WHEN 'version' THEN e.listing IS NOT NULL END
    ) AS facts,
    '{}'::jsonb AS meta
FROM entities e WHERE e.kind <> 'resource' AND e.kind <> 'group';

-- The versions that cross references show: those of their targets.
CREATE VIEW lent AS
SELECT x.xid || '/versions' AS listing, lower(v.id) COLLATE "C" AS listing_id,
    x.xid || '/versions/' || v.id AS xid,
    search_name(v.attributes) COLLATE "C" AS name, v.modifiedat,
    search_document(x.xid, v.id, v.attributes) AS document,
    x.id AS entity_id, v.id AS version_id, v.attributes,
    search_facts(
        x.xid || '/versions/' || v.id, x.authority, v.epoch, v.createdat, v.modifiedat,
        v.listing IS NOT NULL
    ) AS facts,
    '{}'::jsonb AS meta
FROM entities x
JOIN entities v ON v.kind = 'version' AND v.collection = (x.attributes ->> 'xref') || '/versions'
WHERE x.kind = 'resource' AND x.attributes ? 'xref';

-- Every entity as clients see it, in the collection where they see it.
CREATE VIEW shown AS
TABLE listed UNION ALL TABLE borrowed UNION ALL TABLE kept UNION ALL TABLE lent;

-- What conditions know by name: `own` is the authority of this node.
CREATE VIEW search_names AS SELECT jsonb_build_object('own', lower(authority)) AS names FROM node;
