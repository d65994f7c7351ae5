-- The schema of the catalog. schema.sql beside this folder shows it as PostgreSQL describes it.


-- The node and its configuration

-- As json, the members of a model keep the order in which they were given. `resolved` is the
-- source with its includes resolved; it is null if the source has none. `capabilities` are null
-- until a client has chosen some: all that the server offers are enabled until then. Every
-- change of the configuration raises `revision`. `home` is the database that the node was in last.
-- While the node recovers, its `gate` is `closed` to the writes of clients, or open to changes of
-- the `model` alone.
CREATE TABLE node (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    instance uuid NOT NULL,
    home text,
    authority text NOT NULL,
    modelsource json NOT NULL,
    -- The change log begins after this position: earlier rows were dropped.
    dropped_txid bigint NOT NULL DEFAULT 0,
    dropped_seq bigint NOT NULL DEFAULT 0,
    -- The same for the log of subscriptions.
    dropped_subscription_txid bigint NOT NULL DEFAULT 0,
    dropped_subscription_seq bigint NOT NULL DEFAULT 0,
    -- The same for the audit.
    dropped_audit_txid bigint NOT NULL DEFAULT 0,
    dropped_audit_seq bigint NOT NULL DEFAULT 0,
    resolved json,
    capabilities json,
    revision bigint NOT NULL DEFAULT 0,
    gate text NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'model', 'closed')),
    -- The number of the key that signs what this authority writes; null if it signs nothing.
    signingkey integer,
    -- What was written before is signed, too, or anew: all up to here has been; null if all has.
    signsafter text COLLATE "C",
    -- Raised by every change of the rules of access.
    access_revision bigint NOT NULL DEFAULT 0
);


-- Entities, their documents, and the tombstones of deleted ones

-- `listing` is the collection in which clients see this row's attributes: a group's own, and
-- for a default version the one of its resource. It is null for every other row. `listing_id`
-- is the id there, in lower case.
CREATE TABLE entities (
    xid text COLLATE "C" PRIMARY KEY,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('registry', 'group', 'resource', 'version')),
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 0),
    attributes jsonb NOT NULL,
    createdat timestamptz NOT NULL,
    modifiedat timestamptz NOT NULL,
    document_sha256 bytea,
    digest bytea NOT NULL,
    fingerprint bigint NOT NULL,
    bucket integer NOT NULL CHECK (bucket BETWEEN 0 AND 65535),
    listing text COLLATE "C",
    listing_id text COLLATE "C",
    -- The signature of the authority over the digest, and the id of its key.
    signature bytea,
    signedby text COLLATE "C",
    -- Those attributes as the authority wrote them that a replica shows otherwise.
    replaced jsonb
);
-- Ids are unique among siblings without regard to case, and pages are in this order.
CREATE UNIQUE INDEX entities_sibling ON entities (collection, lower(id) COLLATE "C");
CREATE UNIQUE INDEX entities_origin ON entities (authority, origin);
-- The fingerprints of buckets are combined from the index alone.
CREATE INDEX entities_bucket ON entities (bucket) INCLUDE (fingerprint);
-- Subtrees are read in this order: each entity right before everything below it, siblings by
-- their ids without regard to case. No id contains a byte as low as 0x01.
CREATE INDEX entities_tree ON entities ((replace(lower(xid), '/', E'\x01') COLLATE "C"));

CREATE TABLE documents (
    xid text COLLATE "C" PRIMARY KEY
        REFERENCES entities (xid) ON DELETE CASCADE ON UPDATE CASCADE,
    body bytea NOT NULL
);

-- `is_past` marks a version that was deleted in an earlier life of its resource.
CREATE TABLE tombstones (
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    bucket integer NOT NULL,
    deletedat timestamptz NOT NULL,
    is_past boolean NOT NULL DEFAULT false,
    signature bytea,
    signedby text COLLATE "C",
    PRIMARY KEY (authority, origin)
);
CREATE INDEX tombstones_bucket ON tombstones (bucket);

-- Short URLs name a group or a resource by the beginning of the hash of its xid. No character
-- of an xid has a meaning of its own in the `escape` format.
CREATE FUNCTION short_key(xid text)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(sha256(decode(xid, 'escape')) FROM 1 FOR 12);

CREATE INDEX entities_short_key ON entities (short_key(xid)) WHERE kind IN ('group', 'resource');

-- Each resource with its default version, if that is here yet, and its number of versions.
CREATE VIEW resources_shown AS
SELECT r.xid, r.id, r.kind, r.authority, r.origin, r.epoch, r.attributes, r.createdat,
    r.modifiedat, r.digest, r.document_sha256,
    v.xid AS v_xid, v.epoch AS v_epoch, v.attributes AS v_attributes, v.createdat AS v_createdat,
    v.modifiedat AS v_modifiedat, v.digest AS v_digest, v.document_sha256 AS v_document_sha256,
    v.authority AS v_authority, v.origin AS v_origin,
    (SELECT count(*) FROM entities c WHERE c.collection = r.xid || '/versions') AS versionscount
FROM entities r
LEFT JOIN entities v ON v.xid = r.xid || '/versions/' || (r.attributes ->> 'defaultversionid');


-- Cross references: resources that show another one, which their attribute `xref` names

CREATE INDEX entities_xref ON entities (collection, lower(id) COLLATE "C")
    WHERE kind = 'resource' AND attributes ? 'xref';
CREATE INDEX entities_xref_versions ON entities ((xid || '/versions'))
    WHERE kind = 'resource' AND attributes ? 'xref';
CREATE INDEX entities_xref_target ON entities ((attributes ->> 'xref'))
    WHERE attributes ->> 'xref' IS NOT NULL;


-- The change log

-- A position in the log is (txid, seq). Rows of a transaction are shown only when every
-- transaction with a lower id has ended. So positions appear in ascending order, and a reader
-- that continues after the last position it saw skips nothing.
CREATE TABLE changes (
    txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    interaction text NOT NULL,
    at timestamptz NOT NULL,
    xid text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    action text NOT NULL
        CHECK (action IN ('created', 'updated', 'deleted', 'signed', 'handed')),
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    changed text[] NOT NULL,
    deprecation text[],
    -- The trace of the request that made it, here or at another catalog, as the headers of W3C Trace
    -- Context have it.
    traceparent text,
    tracestate text,
    PRIMARY KEY (txid, seq)
);


-- Who may do what

-- The tokens of this node's own, of which only digests are kept. `grants` are roles, each with the
-- path of what it is for. `usedat` lags behind by up to a minute.
CREATE TABLE access_tokens (
    id text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL UNIQUE,
    name text NOT NULL,
    grants json NOT NULL,
    createdat timestamptz NOT NULL,
    expiresat timestamptz,
    usedat timestamptz
);

-- Roles for parts of the catalog: each rule gives `role` at its paths to all callers that meet the
-- condition `who` (catalog/model/rolerules.py). Every change of them raises `access_revision`.
CREATE TABLE access_rules (
    id text COLLATE "C" PRIMARY KEY,
    who text NOT NULL,
    role text NOT NULL,
    createdat timestamptz NOT NULL,
    createdby text NOT NULL
);

-- The group of an entity, as rules of access name it.
CREATE FUNCTION access_group(xid text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower('/' || split_part(xid, '/', 2) || '/' || split_part(xid, '/', 3)) COLLATE "C";

-- A path names a group, `/GROUPTYPE/GROUPID` in lower case, which is looked up by the key. Where it
-- has wildcards, `pattern` is the same for LIKE.
CREATE TABLE access_paths (
    rule text COLLATE "C" NOT NULL REFERENCES access_rules (id) ON DELETE CASCADE,
    path text COLLATE "C" NOT NULL,
    pattern text COLLATE "C",
    PRIMARY KEY (rule, path)
);
CREATE INDEX access_paths_pattern ON access_paths (rule) INCLUDE (pattern)
    WHERE pattern IS NOT NULL;
CREATE INDEX access_paths_path ON access_paths (path, rule);
-- The audit: who changed what, and who was refused. A row about what is `done` was written in the
-- transaction that did it, so there is none without the other. Its positions are like those of the
-- change log. `kind`, `name` and `issuer` are an identity, and `address` and `agent` are those of its
-- request. Of an interaction, `targets` are the first xids that it changed, each with its action, of
-- `changed` ones in all: the change log has the others as long as it keeps them. Of another request,
-- `targets` are the paths of what it made. A row about what is `refused` stands for so many `attempts`
-- alike, and has the `status` and the error's name as `reason`.
CREATE TABLE audit (
    txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('done', 'refused')),
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    issuer text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    method text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    interaction text COLLATE "C",
    actions text[],
    targets text[] NOT NULL,
    changed integer,
    status integer,
    reason text COLLATE "C",
    attempts integer,
    -- What is done, and what is refused, is counted in the index alone.
    PRIMARY KEY (txid, seq) INCLUDE (outcome)
);
CREATE INDEX audit_refused ON audit (txid, seq) WHERE outcome = 'refused';


-- What authorities sign

-- The keys of this authority. `sealed` is the secret of a key, encrypted (catalog/keys/keyring.py);
-- it is dropped when the next key takes over, which `endorsement` is the signature of, by the one
-- before.
CREATE TABLE authority_keys (
    number integer PRIMARY KEY,
    publickey bytea NOT NULL,
    sealed bytea,
    createdat timestamptz NOT NULL,
    endorsement bytea,
    retiredat timestamptz,
    revokedat timestamptz
);

-- The histories of keys as authorities have signed them, this one's too. Relays pass them on.
CREATE TABLE key_histories (
    authority text COLLATE "C" PRIMARY KEY,
    history json NOT NULL
);

-- The keys that this node trusts. Of an authority with any row here, it takes nothing else than
-- what one of them has signed that is not revoked.
CREATE TABLE trusted_keys (
    authority text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    publickey bytea NOT NULL,
    trustedat timestamptz NOT NULL,
    reason text NOT NULL CHECK (reason IN ('named', 'first', 'endorsed')),
    revokedat timestamptz,
    PRIMARY KEY (authority, number, publickey)
);


-- Handovers

-- Groups that this node gives to another authority, or takes from one, whose catalog is at `peer`.
-- One that is given is `offered` until this node lets go of the group, then `given` until the
-- other catalog has it. One that is taken is `consented`, then `asked` for, then `promised`: from
-- then on, the other catalog alone knows whose the group is. `theirs` is the id that the handover
-- has there. No deleted entity of the taker in the group has an epoch above `floor`.
CREATE TABLE handovers (
    id text COLLATE "C" PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('give', 'take')),
    xid text COLLATE "C" NOT NULL,
    peer text NOT NULL,
    authority text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN (
        'offered', 'given', 'consented', 'asked', 'promised', 'done', 'aborted')),
    theirs text COLLATE "C",
    floor bigint NOT NULL DEFAULT 0,
    entities bigint,
    failures integer NOT NULL DEFAULT 0,
    nextattemptat timestamptz,
    error text,
    startedat timestamptz NOT NULL,
    endedat timestamptz,
    sealed bytea
);
-- One handover of a group is under way at a time.
CREATE UNIQUE INDEX handovers_open ON handovers (lower(xid) COLLATE "C") WHERE endedat IS NULL;

-- The lines that the taker of a given group has yet to fetch.
CREATE TABLE handover_copies (
    handover text COLLATE "C" NOT NULL REFERENCES handovers (id) ON DELETE CASCADE,
    number integer NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (handover, number)
);


-- The locks of writes

-- Locks the entities that an interaction will write, and returns them, with the registry and
-- the versions of the resources.
--
-- Advisory locks take no transaction id, so an interaction gets its id only when it holds all
-- its locks. Of two interactions on one entity, the later one therefore has the higher id, and
-- the change log shows an entity's changes in the order in which they were made. Keys are taken
-- in ascending order, so no two interactions wait for each other.
--
-- The catalog is locked shared, or exclusive by bulk writes and by changes of the
-- configuration. A group is locked exclusive if children come or go, and the registry if groups
-- do; otherwise the group is locked shared and each of the resources exclusive. SQLSTATE CC001:
-- an entity was deleted while the interaction waited for its locks; begin again, with the
-- registry and the groups exclusive. SQLSTATE CC002: the configuration has another revision
-- than the expected one (null expects none); read the configuration and begin again. SQLSTATE
-- CC003: the gate of the node is in one of the positions at which the caller may not write.
-- SQLSTATE CC004: the caller may not write to what is `reserved`, and one of the groups is: another
-- authority hands it over to this node, and it is not here, or about to come.
--
-- `is_referred` says whether a cross reference may refer to any of the resources, `has_lived`
-- whether any of the entities, or a version of the resources, may have been deleted before.
--
-- The settings of the planner: the function reads a few rows of tables that grow, and a plan
-- made while they were small, or for the worst case, would scan them whole.
CREATE FUNCTION lock_and_load(
    group_xids text[],
    resource_xids text[],
    registry_exclusive boolean,
    groups_exclusive boolean,
    catalog_exclusive boolean,
    expected_revision bigint,
    refused_at text[]
) RETURNS TABLE (entity entities, is_referred boolean, has_lived boolean, signing_key integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    take_registry boolean := registry_exclusive;
    take_groups boolean := groups_exclusive;
    lacks_group boolean;
    lacks_resource boolean;
    held node;
    taken handovers;
BEGIN
    SELECT count(*) FILTER (WHERE kind = 'group') < cardinality(group_xids),
        count(*) FILTER (WHERE kind = 'resource') < cardinality(resource_xids)
    INTO lacks_group, lacks_resource
    FROM entities WHERE xid = ANY (group_xids || resource_xids);
    take_registry := take_registry OR lacks_group;
    take_groups := take_groups OR take_registry OR lacks_resource;
    PERFORM CASE WHEN ordered.exclusive
        THEN pg_advisory_xact_lock(ordered.key) ELSE pg_advisory_xact_lock_shared(ordered.key) END
    FROM (
        SELECT key, bool_or(exclusive) AS exclusive
        FROM (
            SELECT hashtextextended('catalog', 0) AS key, catalog_exclusive AS exclusive
            UNION ALL
            SELECT hashtextextended('/', 0), true WHERE take_registry AND NOT catalog_exclusive
            UNION ALL
            SELECT hashtextextended(xid, 0), take_groups FROM unnest(group_xids) AS xid
            WHERE NOT catalog_exclusive
            UNION ALL
            SELECT hashtextextended(xid, 0), true FROM unnest(resource_xids) AS xid
            WHERE NOT take_groups AND NOT catalog_exclusive
        ) AS wanted
        GROUP BY key
        ORDER BY key
        OFFSET 0
    ) AS ordered;
    SELECT * INTO held FROM node;
    IF held.gate = ANY (refused_at) THEN
        RAISE EXCEPTION 'the gate is %', held.gate USING ERRCODE = 'CC003';
    END IF;
    IF 'reserved' = ANY (refused_at) THEN
        SELECT h.* INTO taken FROM unnest(group_xids) AS g (xid)
        JOIN handovers h ON lower(h.xid) COLLATE "C" = lower(g.xid) AND h.endedat IS NULL
        WHERE h.role = 'take'
            AND (h.state = 'promised' OR NOT EXISTS (SELECT FROM entities e WHERE e.xid = h.xid))
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'it is reserved' USING
                ERRCODE = 'CC004', DETAIL = taken.xid || ' ' || taken.authority;
        END IF;
    END IF;
    IF expected_revision IS NOT NULL AND expected_revision IS DISTINCT FROM held.revision THEN
        RAISE EXCEPTION 'the configuration changed' USING ERRCODE = 'CC002';
    END IF;
    IF NOT catalog_exclusive AND NOT take_registry AND (
        SELECT count(*) FILTER (WHERE kind = 'group') < cardinality(group_xids)
            OR NOT take_groups
            AND count(*) FILTER (WHERE kind = 'resource') < cardinality(resource_xids)
        FROM entities WHERE xid = ANY (group_xids || resource_xids)
    ) THEN
        RAISE EXCEPTION 'what this interaction touches changed' USING ERRCODE = 'CC001';
    END IF;
    is_referred := catalog_exclusive OR EXISTS (
        SELECT FROM entities s WHERE s.attributes ->> 'xref' = ANY (resource_xids));
    has_lived := catalog_exclusive OR EXISTS (
        SELECT FROM tombstones t
        WHERE t.authority = held.authority AND t.origin = ANY (group_xids || resource_xids)
    ) OR EXISTS (
        SELECT FROM unnest(resource_xids) AS r (xid)
        JOIN tombstones t ON t.authority = held.authority
            AND t.origin > r.xid || '/versions/' AND t.origin < r.xid || '/versions0');
    RETURN QUERY
        SELECT e, is_referred, has_lived, held.signingkey FROM entities e
        WHERE e.xid = ANY (group_xids || resource_xids || ARRAY['/'])
        UNION ALL
        SELECT e, is_referred, has_lived, held.signingkey FROM entities e
        WHERE e.collection = ANY (ARRAY(SELECT r || '/versions' FROM unnest(resource_xids) AS r));
END
$$;


-- Search and order

-- The collection of groups, or of resources, in which an entity is or below which it is.
CREATE FUNCTION search_place(xid text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE split_part(xid, '/', 4)
    WHEN '' THEN '/' || split_part(xid, '/', 2)
    ELSE '/' || split_part(xid, '/', 2) || '/' || split_part(xid, '/', 3)
        || '/' || split_part(xid, '/', 4)
END;

-- The attributes and ids of an entity in lower case, in which equalities are looked up. With
-- the collection in it, a search in one collection reads the entries of that one only.
CREATE FUNCTION search_document(xid text, id text, attributes jsonb)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower((attributes || jsonb_object(ARRAY[
    '$id', coalesce(nullif(split_part(xid, '/', 5), ''), id),
    '$vid', id,
    '$in', search_place(xid)
]))::text)::jsonb;

-- The beginning of a name, by which entities are ordered. An index entry has to be small.
CREATE FUNCTION search_name(attributes jsonb)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(lower(coalesce(attributes ->> 'name', '')), 256);

-- A time as clients see it.
CREATE FUNCTION search_time(moment timestamptz)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN rtrim(rtrim(
    to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z';

-- The attributes that an entity shown under `xid` has from columns.
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

-- The parts of an entity that a condition or an order needs: its ids, the named attributes
-- (four at most; null stands for all), its facts, its meta entity. Converting a whole entity to
-- lower case costs more than the rest of the evaluation.
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

-- Values are ordered by rank, then as numbers, then as text: missing and empty ones first, then
-- numbers, then booleans and strings, by their beginning.
CREATE FUNCTION search_rank(value jsonb)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value)
    WHEN 'number' THEN 1 WHEN 'boolean' THEN 2 WHEN 'string' THEN (value <> '""')::integer * 2
    ELSE 0 END;

CREATE FUNCTION search_number(value jsonb)
RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'number' THEN value::numeric ELSE 0 END;

-- `suffix` is the `Z` of a time: without it, times are ordered as text.
CREATE FUNCTION search_text(value jsonb, suffix text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) IN ('boolean', 'string')
    THEN left(rtrim(value #>> '{}', suffix), 256) ELSE '' END;

-- The indexes that pages are read from, by id, name and time of change.
CREATE INDEX entities_listing ON entities (listing, listing_id) WHERE listing IS NOT NULL;
CREATE INDEX entities_name ON entities (listing, search_name(attributes) COLLATE "C", listing_id)
    WHERE listing IS NOT NULL;
CREATE INDEX entities_modified ON entities (listing, modifiedat, listing_id)
    WHERE listing IS NOT NULL;
-- Every search reads the whole list of pending entries, so the list is kept short.
CREATE INDEX entities_search ON entities
    USING gin (search_document(xid, id, attributes) jsonb_path_ops)
    WITH (gin_pending_list_limit = 128)
    WHERE kind <> 'resource';

-- The parts of `shown`, below. Each shows the entities of some collections, with the values
-- that they are found and ordered by. `facts` and `meta` are costly: a query that does not use
-- them does not compute them.

-- Groups, and resources with the attributes of their default versions. (Other versions have no
-- listing, so no search finds them here; a condition that excludes them would cost an index
-- scan.)
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

-- Cross references, with the attributes and the meta entity of their targets.
CREATE VIEW borrowed AS
SELECT x.collection AS listing, lower(x.id) COLLATE "C" AS listing_id, x.xid,
    search_name(v.attributes) COLLATE "C" AS name,
    coalesce(v.modifiedat, '-infinity') AS modifiedat,
    search_document(x.xid, v.id, coalesce(v.attributes, '{}')) AS document,
    x.id AS entity_id, v.id AS version_id, coalesce(v.attributes, '{}') AS attributes,
    search_facts(
        x.xid, x.authority, v.epoch, v.createdat, v.modifiedat, v.id IS NOT NULL OR NULL
    ) AS facts,
    jsonb_build_object(
        '$meta', coalesce(r.attributes, '{}') || x.attributes
        || search_facts(x.xid || '/meta', x.authority, r.epoch, r.createdat, r.modifiedat, NULL)
    ) AS meta
FROM entities x
LEFT JOIN entities r ON r.xid = x.attributes ->> 'xref' AND NOT r.attributes ? 'xref'
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

-- The names that conditions can refer to: `own` is the authority of this node.
CREATE VIEW search_names AS SELECT jsonb_build_object('own', lower(authority)) AS names FROM node;


-- Subscriptions

-- Each definition of a subscription and each command on it gets a new revision, by which the
-- process that delivers notices it. Everything up to (txid, seq) in the log `log` needs no more
-- delivery. `course` counts the commands that moved this cursor: what a delivery of an earlier
-- course has reached does not move it. `initial` is the xid up to which the events of what was
-- there have been delivered; null if there are none to deliver.
--
-- `delivered` and `failed` count events: those that the sink accepted, and those that became dead
-- letters. `failedattempts` counts the attempts that failed, `failures` those in a row, `tried`
-- those of the event that is next. `failedcause` is kept when `error` ends. `pausereason` says why
-- a pending one will be paused once its sink has consented; null if it will be active.
CREATE SEQUENCE subscriptions_revision;
CREATE TABLE subscriptions (
    id text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL,
    revision bigint NOT NULL DEFAULT nextval('subscriptions_revision'),
    log text NOT NULL DEFAULT 'changes' CHECK (log IN ('changes', 'subscriptions', 'audit')),
    course integer NOT NULL DEFAULT 0,
    txid bigint NOT NULL,
    seq bigint NOT NULL,
    initial text COLLATE "C",
    state text NOT NULL DEFAULT 'active'
        CHECK (state IN ('pending', 'active', 'paused', 'suspended', 'expired', 'ended')),
    reason text,
    pausereason text CHECK (state = 'pending' OR pausereason IS NULL),
    createdat timestamptz NOT NULL DEFAULT now(),
    expiresat timestamptz,
    delivered bigint NOT NULL DEFAULT 0,
    deliveredat timestamptz,
    failed bigint NOT NULL DEFAULT 0,
    failedattempts bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    failingsince timestamptz,
    failedat timestamptz,
    failedcause text,
    error text,
    nextattemptat timestamptz,
    tried integer NOT NULL DEFAULT 0,
    triedsince timestamptz,
    -- When it was noticed that changes had left the log before they were delivered.
    lostat timestamptz,
    -- Whom it belongs to (catalog/model/creator.py): the text that names the caller, and what tells
    -- its rights. Null if the node was open.
    createdby text COLLATE "C",
    creator json
);
CREATE INDEX subscriptions_createdby ON subscriptions (createdby, id) WHERE createdby IS NOT NULL;
CREATE INDEX subscriptions_expiresat ON subscriptions (expiresat)
    WHERE state IN ('pending', 'active', 'paused');

-- The keys that sign the deliveries of a subscription. `sealed` is the secret of a key, encrypted
-- (catalog/keys/keyring.py); the current key has no end.
CREATE TABLE signing_keys (
    subscription text COLLATE "C" NOT NULL REFERENCES subscriptions (id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    id text COLLATE "C" NOT NULL,
    scheme text NOT NULL CHECK (scheme IN ('hmac-sha256', 'ed25519')),
    sealed bytea NOT NULL,
    publickey text,
    createdat timestamptz NOT NULL,
    endsat timestamptz,
    PRIMARY KEY (subscription, id)
);

-- The consents of the sinks of web hooks (http-webhook.md 4), and the search for those that are
-- missing: such a sink is asked next at `askat`, and until `endsat`. `callbacks` are digests of the
-- secrets with which it can consent by itself. A consent is one of `sinkorigin`, scheme, host and
-- port, to `requestorigin`, for so many requests in a minute; null for any number.
CREATE TABLE sink_consents (
    subscription text COLLATE "C" PRIMARY KEY REFERENCES subscriptions (id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    sinkorigin text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    askat timestamptz,
    endsat timestamptz NOT NULL,
    callbacks bytea[] NOT NULL DEFAULT '{}',
    grantedat timestamptz,
    requestorigin text,
    allowedrate integer
);
CREATE INDEX sink_consents_askat ON sink_consents (askat) WHERE askat IS NOT NULL;

-- The processes that deliver. Each says again and again that it is there until `until`; it is gone
-- as well when its connection has ended.
CREATE TABLE delivery_processes (
    id uuid PRIMARY KEY,
    until timestamptz NOT NULL,
    backend integer NOT NULL,
    backend_start timestamptz NOT NULL
);
-- Subscriptions are shared out in shards, of which each has one process at a time.
CREATE TABLE delivery_leases (
    shard integer PRIMARY KEY,
    process uuid REFERENCES delivery_processes ON DELETE SET NULL
);
INSERT INTO delivery_leases (shard) SELECT generate_series(0, 63);

-- The log of subscriptions: what became of them, for those who subscribe to that. Its positions
-- are like those of the change log.
CREATE TABLE subscription_events (
    txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL DEFAULT now(),
    subscription text COLLATE "C" NOT NULL,
    action text NOT NULL
        CHECK (action IN (
            'started', 'updated', 'ended', 'failing', 'recovered', 'credentialexpiring')),
    data jsonb NOT NULL,
    -- That of the subscription.
    createdby text COLLATE "C",
    PRIMARY KEY (txid, seq)
);

-- Logs what became of a subscription. Those that read this log cause no entries about their own
-- failures: two that watch each other could feed each other without end.
CREATE FUNCTION log_subscription()
RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    s subscriptions := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    was text := CASE WHEN TG_OP <> 'INSERT' THEN OLD.state END;
    action text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        s.reason := 'it was deleted';
        action := CASE WHEN was NOT IN ('ended', 'expired') THEN 'ended' END;
    ELSIF s.state IS DISTINCT FROM was AND s.state IN ('ended', 'expired') THEN
        action := 'ended';
    ELSIF s.state = 'active' AND (was IS NULL OR was IN ('pending', 'ended', 'expired')) THEN
        action := 'started';
    ELSIF TG_OP = 'INSERT' THEN
        action := NULL;
    ELSIF s.state <> was OR s.definition <> OLD.definition THEN
        action := 'updated';
    ELSIF s.log <> 'subscriptions' AND s.failures > 0 AND OLD.failures = 0 THEN
        action := 'failing';
    ELSIF s.log <> 'subscriptions' AND s.failures = 0 AND OLD.failures > 0 THEN
        action := 'recovered';
    END IF;
    IF action IS NOT NULL THEN
        INSERT INTO subscription_events (subscription, action, createdby, data)
        VALUES (s.id, action, s.createdby, jsonb_strip_nulls(jsonb_build_object(
            'state', s.state, 'reason', s.reason, 'failures', s.failures, 'cause', s.error)));
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER subscriptions_logged AFTER INSERT OR DELETE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION log_subscription();
CREATE TRIGGER subscriptions_update_logged AFTER UPDATE ON subscriptions
    FOR EACH ROW
    WHEN (OLD.revision <> NEW.revision OR OLD.state <> NEW.state
        OR (OLD.failures = 0) <> (NEW.failures = 0))
    EXECUTE FUNCTION log_subscription();

-- What subscriptions and links counted that are gone: the totals of a node never fall.
CREATE TABLE former_counts (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    delivered bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    failedattempts bigint NOT NULL DEFAULT 0,
    applied bigint NOT NULL DEFAULT 0,
    errors bigint NOT NULL DEFAULT 0
);
INSERT INTO former_counts DEFAULT VALUES;

CREATE FUNCTION keep_subscription_counts()
RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE former_counts SET delivered = delivered + OLD.delivered, failed = failed + OLD.failed,
        failedattempts = failedattempts + OLD.failedattempts;
    RETURN NULL;
END
$$;
CREATE TRIGGER subscriptions_counted AFTER DELETE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION keep_subscription_counts();

-- Each subscription with how many entries of its log come after its cursor, 1000 at most, and the
-- time of the first of them. In their order, they are read from an index: a scan of the whole log
-- would find a thousand as soon, but not a few at its end.
CREATE VIEW subscriptions_shown AS
SELECT s.*,
    CASE s.log WHEN 'changes' THEN (
        SELECT count(*) FROM (
            SELECT FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq)
            ORDER BY c.txid, c.seq LIMIT 1000
        ) AS unread
    ) WHEN 'audit' THEN (
        SELECT count(*) FROM (
            SELECT FROM audit a WHERE (a.txid, a.seq) > (s.txid, s.seq)
            ORDER BY a.txid, a.seq LIMIT 1000
        ) AS unread
    ) ELSE (
        SELECT count(*) FROM (
            SELECT FROM subscription_events e WHERE (e.txid, e.seq) > (s.txid, s.seq)
            ORDER BY e.txid, e.seq LIMIT 1000
        ) AS unread
    ) END AS lag,
    CASE s.log WHEN 'changes' THEN (
        SELECT at FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq)
        ORDER BY c.txid, c.seq LIMIT 1
    ) WHEN 'audit' THEN (
        SELECT at FROM audit a WHERE (a.txid, a.seq) > (s.txid, s.seq)
        ORDER BY a.txid, a.seq LIMIT 1
    ) ELSE (
        SELECT at FROM subscription_events e WHERE (e.txid, e.seq) > (s.txid, s.seq)
        ORDER BY e.txid, e.seq LIMIT 1
    ) END AS oldestat
FROM subscriptions s;

-- The events that a subscription's sink did not take, in the order of their numbers. A dead one
-- is to be delivered again once it is due; one that is waiting comes after a dead one of its
-- subject.
CREATE TABLE dead_letters (
    subscription text COLLATE "C" NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    eventid text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    -- The entity that it is about; null if it is about a subscription.
    xid text COLLATE "C",
    event bytea NOT NULL,
    at timestamptz NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    state text NOT NULL CHECK (state IN ('dead', 'waiting', 'due')),
    PRIMARY KEY (subscription, number),
    UNIQUE (subscription, eventid)
);
CREATE INDEX dead_letters_at ON dead_letters (at);
CREATE INDEX dead_letters_state ON dead_letters (subscription, state, number);
CREATE INDEX dead_letters_subject ON dead_letters (subscription, subject, number)
    WHERE state = 'dead';

-- The last attempts to deliver.
CREATE TABLE delivery_attempts (
    subscription text COLLATE "C" NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    events integer NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('delivered', 'refused', 'gone')),
    reason text NOT NULL,
    milliseconds integer NOT NULL,
    PRIMARY KEY (subscription, number)
);
CREATE INDEX delivery_attempts_at ON delivery_attempts (at);

-- The credentials with which events are delivered. `sealed` is the whole credential, encrypted
-- (catalog/keys/keyring.py); what else is here is no secret. The access token is to be refreshed at
-- `refreshat`, and `error` is why the last refresh failed. A refresh raises the revision. While
-- one `isclaimed`, some process refreshes it until `refreshat`. `earlyat` is when it was last to be
-- refreshed early, since the sink had refused it.
CREATE TABLE sink_credentials (
    subscription text COLLATE "C" PRIMARY KEY REFERENCES subscriptions (id) ON DELETE CASCADE,
    revision bigint NOT NULL DEFAULT nextval('subscriptions_revision'),
    sealed bytea NOT NULL,
    type text NOT NULL CHECK (type IN ('PLAIN', 'ACCESSTOKEN', 'REFRESHTOKEN')),
    scheme text,
    expiresat timestamptz,
    endpoint text,
    refreshat timestamptz,
    isclaimed boolean NOT NULL DEFAULT false,
    earlyat timestamptz,
    failures integer NOT NULL DEFAULT 0,
    error text,
    -- Whether it was logged that the access token, which nothing refreshes, ends soon.
    iswarned boolean NOT NULL DEFAULT false
);
CREATE INDEX sink_credentials_expiresat ON sink_credentials (expiresat)
    WHERE type = 'ACCESSTOKEN' AND NOT iswarned;
CREATE INDEX sink_credentials_refreshat ON sink_credentials (refreshat)
    WHERE refreshat IS NOT NULL;


-- Links

-- The numbers of errors by class, with so many more of one class; null is none.
CREATE FUNCTION counted_error(errors jsonb, class text, more integer)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN class IS NULL OR more = 0 THEN errors
    ELSE errors || jsonb_build_object(class, coalesce((errors ->> class)::bigint, 0) + more) END;

-- `cursor` is the position after which to continue in the log of `instance`. `base` is the base
-- of the URLs that the source gives out. `authority` is the one that the source is pinned to: it
-- speaks for no other. `doubts` says that the next complete copy begins by doubting the copies of
-- that authority here; `drops` are the authorities whose replicas are dropped before, `*` all; a
-- link that `ends` is deleted once they are. `copiesall` says that the next copy does not compare
-- digests first, and `brake` what the link waits to be allowed to delete. `former` are the earlier
-- selections of the link that are to be reconsidered. `behind` is the number of
-- changes that its source had told to be left. `minutecopies` came since `minuteat`, and
-- `earliercopies` in the minute before; `copied` of `copyof` came since `copyat`, by the complete
-- copy that is under way. `errors` has their numbers by class. `sealed` is the credential that
-- the link shows to its peer, encrypted, and `credential` what everybody may know of that. No
-- revision is used twice, so a link that was removed and added again has another one.
CREATE TABLE links (
    id text PRIMARY KEY,
    revision bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    definition jsonb NOT NULL,
    instance uuid,
    authority text,
    cursor text,
    subscription text,
    state text NOT NULL DEFAULT 'new'
        CHECK (state IN (
            'new', 'copying', 'behind', 'current', 'waiting', 'unauthenticated', 'forbidden',
            'refused', 'braked', 'paused')),
    paused text CHECK ((paused IS NOT NULL) = (state = 'paused')),
    failures integer NOT NULL DEFAULT 0,
    nextattemptat timestamptz,
    applied bigint NOT NULL DEFAULT 0,
    appliedat timestamptz,
    currentat timestamptz,
    error text,
    history jsonb NOT NULL DEFAULT '[]',
    base text COLLATE "C",
    doubts boolean NOT NULL DEFAULT true,
    drops text[] NOT NULL DEFAULT '{}',
    ends boolean NOT NULL DEFAULT false,
    copiesall boolean NOT NULL DEFAULT false,
    brake jsonb,
    former jsonb,
    bytes bigint NOT NULL DEFAULT 0,
    behind bigint,
    minuteat timestamptz,
    minutecopies bigint NOT NULL DEFAULT 0,
    earliercopies bigint NOT NULL DEFAULT 0,
    copyat timestamptz,
    copied bigint NOT NULL DEFAULT 0,
    copyof bigint,
    errors jsonb NOT NULL DEFAULT '{}',
    sealed bytea,
    credential jsonb
);

-- The number of errors of all classes.
CREATE FUNCTION all_errors(errors jsonb)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(sum(value::bigint), 0)::bigint FROM jsonb_each_text(errors));

CREATE FUNCTION keep_link_counts()
RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE former_counts
    SET applied = applied + OLD.applied, errors = errors + all_errors(OLD.errors);
    RETURN NULL;
END
$$;
CREATE TRIGGER links_counted AFTER DELETE ON links
    FOR EACH ROW EXECUTE FUNCTION keep_link_counts();

-- The comparisons of this catalog with others, as the jobs that made them have reported them; the
-- latest of each outcome. `at` is the time of the report by the clock of this node, `name` the name
-- that the job has for this catalog, and `catalogs` are those of all that were compared. `findings`
-- are the numbers of differences here, `unverifiable` of origins whose authority was not compared.
CREATE TABLE reconciliations (
    run uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    startedat timestamptz NOT NULL,
    endedat timestamptz NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('equal', 'different', 'failed')),
    name text NOT NULL,
    catalogs text[] NOT NULL,
    findings jsonb NOT NULL,
    unverifiable bigint NOT NULL,
    repaired bigint,
    error text
);

-- Whether a link's selection contains an entity: its origin is at, below or above one of the paths
-- of its scope, and of one of its types. None of either stands for all.
CREATE FUNCTION is_selected(origin text, scope text[], types text[])
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (cardinality(scope) = 0 OR EXISTS (
        SELECT FROM unnest(scope) AS path
        WHERE origin = path OR starts_with(origin, path || '/')
            OR starts_with(path, origin || '/')))
    AND (cardinality(types) = 0 OR EXISTS (
        SELECT FROM unnest(types) AS type
        WHERE split_part(origin, '/', 2) = split_part(type, '/', 1)
            AND (split_part(type, '/', 2) = ''
                OR split_part(origin, '/', 4) IN ('', split_part(type, '/', 2)))));

-- Whether attributes have all of some labels, given as `name=value` or `name`.
CREATE FUNCTION has_labels(attributes jsonb, wanted text[])
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce((
    SELECT bool_and(CASE WHEN strpos(label, '=') = 0 THEN attributes -> 'labels' ? label
        ELSE attributes -> 'labels' ->> split_part(label, '=', 1)
            = substr(label, strpos(label, '=') + 1) END)
    FROM unnest(wanted) AS label), false);

-- Whether labels select an entity: its group has them, or the default version of its resource, or
-- of a group, that of any resource in it.
CREATE FUNCTION is_labelled(entity_xid text, wanted text[])
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN EXISTS (
        SELECT FROM entities g
        WHERE g.xid = '/' || split_part(entity_xid, '/', 2) || '/' || split_part(entity_xid, '/', 3)
            AND has_labels(g.attributes, wanted)
    ) OR split_part(entity_xid, '/', 4) <> '' AND EXISTS (
        SELECT FROM entities r
        JOIN entities v
            ON v.xid = r.xid || '/versions/' || (r.attributes ->> 'defaultversionid')
        WHERE r.xid = '/' || split_part(entity_xid, '/', 2) || '/' || split_part(entity_xid, '/', 3)
                || '/' || split_part(entity_xid, '/', 4) || '/' || split_part(entity_xid, '/', 5)
            AND has_labels(v.attributes, wanted)
    ) OR split_part(entity_xid, '/', 4) = '' AND EXISTS (
        SELECT FROM entities r
        JOIN entities v
            ON v.xid = r.xid || '/versions/' || (r.attributes ->> 'defaultversionid')
        WHERE r.xid > entity_xid || '/' AND r.xid < entity_xid || '0' AND r.kind = 'resource'
            AND has_labels(v.attributes, wanted)
    );

-- The entities that a link has deleted since a time, which count together. An operator has
-- `allowed` so many of them to the `revision` of the link, once.
CREATE TABLE link_deletions (
    link text PRIMARY KEY REFERENCES links (id) ON DELETE CASCADE,
    since timestamptz NOT NULL,
    deleted bigint NOT NULL,
    allowed bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL
);

-- The pushes of an authority are accepted by one row.
CREATE UNIQUE INDEX links_accepted ON links (authority) WHERE definition ->> 'mode' = 'accept';

-- The links that bring entities; the others send them to a target, which `authority` names there.
CREATE VIEW bringing_links AS SELECT * FROM links
    WHERE definition ->> 'mode' NOT IN ('push', 'publish', 'write');

-- The copies of an authority that were here when a link began to copy everything from the
-- authority itself: relays may have forged them. The authority's own copies replace them whatever
-- their epochs. A row is deleted when its origin comes; what is left at the end is dropped.
CREATE TABLE doubted_copies (
    link text NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    origin text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (link, origin)
);

-- The entities that a link could not apply, and why. A row is deleted when its entity is
-- applied.
CREATE TABLE conflicts (
    link text NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    verdict text NOT NULL,
    detail text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (link, authority, origin)
);

-- The entities that a link has written to a server, by this node's xids and by the server's paths:
-- the link deletes nothing else there. `place` is the group or the resource, `digest` that of the
-- content, which is empty until a first write was answered; `tag` is what the server has answered
-- it with. What `is_adopted` was there before, and stays.
CREATE TABLE written_entities (
    link text NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    tag text NOT NULL,
    is_adopted boolean NOT NULL,
    PRIMARY KEY (link, authority, origin)
);
CREATE INDEX written_entities_place ON written_entities (link, place);


-- Recovery

-- The recovery of a node's own entities from its replicas: the one under way, or the last one. One
-- that is `awaited` has no sources yet. It reads what its sources have, takes what is later than here, is `asking` before it
-- deletes more than is `allowed`, and `blocked` while something cannot be taken. One that is `burying` deletes that. At its end,
-- it has `taken` and `kept` so much. Copies have to be signed by one of `keys`, which are null until they are known; an
-- operator has `named` some, or takes what is `unsigned`.
CREATE TABLE recovery (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    state text NOT NULL
        CHECK (state IN (
            'awaited', 'reading', 'taking', 'asking', 'blocked', 'burying', 'done', 'aborted')),
    named text[] NOT NULL DEFAULT '{}',
    unsigned boolean NOT NULL DEFAULT false,
    keys text[],
    allowed bigint NOT NULL DEFAULT 0,
    startedat timestamptz NOT NULL,
    endedat timestamptz,
    failures integer NOT NULL DEFAULT 0,
    nextattemptat timestamptz,
    error text,
    taken bigint NOT NULL DEFAULT 0,
    kept bigint NOT NULL DEFAULT 0
);

-- The sources of the recovery. Of one that was read, `origins` differed from what was here. It sent
-- so many copies that are `unproven`. `sealed` is the credential that it is shown, encrypted.
CREATE TABLE recovery_sources (
    number integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    url text NOT NULL,
    instance uuid,
    origins bigint NOT NULL DEFAULT 0,
    unproven bigint NOT NULL DEFAULT 0,
    isread boolean NOT NULL DEFAULT false,
    sealed bytea
);

-- The copies of sources, where they differ from what was here; `epoch` is null where a source has
-- nothing. One that `isspoilt` did not come as it was announced. One with a `fault` is not proven to
-- be this authority's by its signature.
CREATE TABLE recovery_copies (
    origin text COLLATE "C" NOT NULL,
    source integer NOT NULL REFERENCES recovery_sources (number) ON DELETE CASCADE,
    epoch bigint,
    deleted boolean NOT NULL,
    digest bytea NOT NULL,
    isspoilt boolean NOT NULL DEFAULT false,
    fault text,
    PRIMARY KEY (origin, source)
);

-- The copy that was chosen of each origin, by so many `votes`, with the number of different copies
-- of its epoch as `rivals`. They are taken in the order of `rank`: deletions first, the deepest
-- first, then parents first. What is `kept` was here already; what is `partial` is here without its
-- default version; what is `buried` was deleted, since something above it was, or since an operator
-- asked for that. A deletion `removes` so many entities, those that another one removes left out.
CREATE TABLE recovery_choices (
    origin text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    deleted boolean NOT NULL,
    digest bytea NOT NULL,
    rank integer NOT NULL,
    votes integer NOT NULL,
    rivals integer NOT NULL,
    removes bigint NOT NULL DEFAULT 0,
    state text NOT NULL
        CHECK (state IN ('wanted', 'taken', 'kept', 'partial', 'refused', 'buried')),
    detail text NOT NULL DEFAULT ''
);
CREATE INDEX recovery_choices_wanted ON recovery_choices (rank, origin) WHERE state = 'wanted';


-- Sets of applied documents

-- The entities in the documents of a named set, so that a later apply of the set can delete
-- the entities that its documents no longer contain. A deleted entity leaves its sets.
CREATE TABLE set_members (
    name text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL
        REFERENCES entities (xid) ON DELETE CASCADE ON UPDATE CASCADE,
    PRIMARY KEY (name, xid)
);
CREATE INDEX set_members_xid ON set_members (xid);


-- The Discovery API

-- The ids of services, which are derived from the origins of endpoints. The derivation never
-- changes, so neither do the rows. Each is written when its id is first looked up.
CREATE TABLE service_ids (
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (authority, origin)
);
CREATE INDEX service_ids_id ON service_ids (id);

-- Requests that were accepted for later processing. No process works on a request after its
-- deadline: a request that is still pending then was interrupted, and wrote nothing.
CREATE TABLE service_requests (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    deadline timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'failed')),
    headers jsonb NOT NULL DEFAULT '{}',
    body bytea NOT NULL DEFAULT ''
);
CREATE INDEX service_requests_at ON service_requests (at);

-- Services are the endpoints that offer subscriptions, in the order of their ids.
CREATE INDEX entities_services ON entities (lower(id) COLLATE "C")
    WHERE collection = '/endpoints' AND attributes -> 'usage' ? 'subscriber';

-- Names of services are compared by full case folding, whatever the locale of the database.
-- This block creates fold_case from the mappings C and F of Unicode 16, CaseFolding.txt.
DO $migration$
DECLARE
    -- First and last code point, the step between them, and the mapping of the first one.
    simple CONSTANT int[] := ARRAY[
        [65,90,1,97], [181,181,1,956], [192,214,1,224], [216,222,1,248], [256,302,2,257],
        [306,310,2,307], [313,327,2,314], [330,374,2,331], [376,376,1,255], [377,381,2,378],
        [383,383,1,115], [385,385,1,595], [386,388,2,387], [390,390,1,596], [391,391,1,392],
        [393,394,1,598], [395,395,1,396], [398,398,1,477], [399,399,1,601], [400,400,1,603],
        [401,401,1,402], [403,403,1,608], [404,404,1,611], [406,406,1,617], [407,407,1,616],
        [408,408,1,409], [412,412,1,623], [413,413,1,626], [415,415,1,629], [416,420,2,417],
        [422,422,1,640], [423,423,1,424], [425,425,1,643], [428,428,1,429], [430,430,1,648],
        [431,431,1,432], [433,434,1,650], [435,437,2,436], [439,439,1,658], [440,440,1,441],
        [444,444,1,445], [452,452,1,454], [453,453,1,454], [455,455,1,457], [456,456,1,457],
        [458,458,1,460], [459,475,2,460], [478,494,2,479], [497,497,1,499], [498,500,2,499],
        [502,502,1,405], [503,503,1,447], [504,542,2,505], [544,544,1,414], [546,562,2,547],
        [570,570,1,11365], [571,571,1,572], [573,573,1,410], [574,574,1,11366], [577,577,1,578],
        [579,579,1,384], [580,580,1,649], [581,581,1,652], [582,590,2,583], [837,837,1,953],
        [880,882,2,881], [886,886,1,887], [895,895,1,1011], [902,902,1,940], [904,906,1,941],
        [908,908,1,972], [910,911,1,973], [913,929,1,945], [931,939,1,963], [962,962,1,963],
        [975,975,1,983], [976,976,1,946], [977,977,1,952], [981,981,1,966], [982,982,1,960],
        [984,1006,2,985], [1008,1008,1,954], [1009,1009,1,961], [1012,1012,1,952],
        [1013,1013,1,949], [1015,1015,1,1016], [1017,1017,1,1010], [1018,1018,1,1019],
        [1021,1023,1,891], [1024,1039,1,1104], [1040,1071,1,1072], [1120,1152,2,1121],
        [1162,1214,2,1163], [1216,1216,1,1231], [1217,1229,2,1218], [1232,1326,2,1233],
        [1329,1366,1,1377], [4256,4293,1,11520], [4295,4295,1,11559], [4301,4301,1,11565],
        [5112,5117,1,5104], [7296,7296,1,1074], [7297,7297,1,1076], [7298,7298,1,1086],
        [7299,7300,1,1089], [7301,7301,1,1090], [7302,7302,1,1098], [7303,7303,1,1123],
        [7304,7304,1,42571], [7305,7305,1,7306], [7312,7354,1,4304], [7357,7359,1,4349],
        [7680,7828,2,7681], [7835,7835,1,7777], [7840,7934,2,7841], [7944,7951,1,7936],
        [7960,7965,1,7952], [7976,7983,1,7968], [7992,7999,1,7984], [8008,8013,1,8000],
        [8025,8031,2,8017], [8040,8047,1,8032], [8120,8121,1,8112], [8122,8123,1,8048],
        [8126,8126,1,953], [8136,8139,1,8050], [8152,8153,1,8144], [8154,8155,1,8054],
        [8168,8169,1,8160], [8170,8171,1,8058], [8172,8172,1,8165], [8184,8185,1,8056],
        [8186,8187,1,8060], [8486,8486,1,969], [8490,8490,1,107], [8491,8491,1,229],
        [8498,8498,1,8526], [8544,8559,1,8560], [8579,8579,1,8580], [9398,9423,1,9424],
        [11264,11311,1,11312], [11360,11360,1,11361], [11362,11362,1,619], [11363,11363,1,7549],
        [11364,11364,1,637], [11367,11371,2,11368], [11373,11373,1,593], [11374,11374,1,625],
        [11375,11375,1,592], [11376,11376,1,594], [11378,11378,1,11379], [11381,11381,1,11382],
        [11390,11391,1,575], [11392,11490,2,11393], [11499,11501,2,11500], [11506,11506,1,11507],
        [42560,42604,2,42561], [42624,42650,2,42625], [42786,42798,2,42787],
        [42802,42862,2,42803], [42873,42875,2,42874], [42877,42877,1,7545],
        [42878,42886,2,42879], [42891,42891,1,42892], [42893,42893,1,613], [42896,42898,2,42897],
        [42902,42920,2,42903], [42922,42922,1,614], [42923,42923,1,604], [42924,42924,1,609],
        [42925,42925,1,620], [42926,42926,1,618], [42928,42928,1,670], [42929,42929,1,647],
        [42930,42930,1,669], [42931,42931,1,43859], [42932,42946,2,42933], [42948,42948,1,42900],
        [42949,42949,1,642], [42950,42950,1,7566], [42951,42953,2,42952], [42955,42955,1,612],
        [42956,42956,1,42957], [42960,42960,1,42961], [42966,42970,2,42967], [42972,42972,1,411],
        [42997,42997,1,42998], [43888,43967,1,5024], [65313,65338,1,65345],
        [66560,66599,1,66600], [66736,66771,1,66776], [66928,66938,1,66967],
        [66940,66954,1,66979], [66956,66962,1,66995], [66964,66965,1,67003],
        [68736,68786,1,68800], [68944,68965,1,68976], [71840,71871,1,71872],
        [93760,93791,1,93792], [125184,125217,1,125218]
    ];
    -- The characters that map to more than one, and what they map to.
    expanding CONSTANT text[] := ARRAY[
        [E'\u00df\u1e9e', E'ss'], [E'\u0130', E'i\u0307'], [E'\u0149', E'\u02bcn'],
        [E'\u01f0', E'j\u030c'], [E'\u0390\u1fd3', E'\u03b9\u0308\u0301'],
        [E'\u03b0\u1fe3', E'\u03c5\u0308\u0301'], [E'\u0587', E'\u0565\u0582'],
        [E'\u1e96', E'h\u0331'], [E'\u1e97', E't\u0308'], [E'\u1e98', E'w\u030a'],
        [E'\u1e99', E'y\u030a'], [E'\u1e9a', E'a\u02be'], [E'\u1f50', E'\u03c5\u0313'],
        [E'\u1f52', E'\u03c5\u0313\u0300'], [E'\u1f54', E'\u03c5\u0313\u0301'],
        [E'\u1f56', E'\u03c5\u0313\u0342'], [E'\u1f80\u1f88', E'\u1f00\u03b9'],
        [E'\u1f81\u1f89', E'\u1f01\u03b9'], [E'\u1f82\u1f8a', E'\u1f02\u03b9'],
        [E'\u1f83\u1f8b', E'\u1f03\u03b9'], [E'\u1f84\u1f8c', E'\u1f04\u03b9'],
        [E'\u1f85\u1f8d', E'\u1f05\u03b9'], [E'\u1f86\u1f8e', E'\u1f06\u03b9'],
        [E'\u1f87\u1f8f', E'\u1f07\u03b9'], [E'\u1f90\u1f98', E'\u1f20\u03b9'],
        [E'\u1f91\u1f99', E'\u1f21\u03b9'], [E'\u1f92\u1f9a', E'\u1f22\u03b9'],
        [E'\u1f93\u1f9b', E'\u1f23\u03b9'], [E'\u1f94\u1f9c', E'\u1f24\u03b9'],
        [E'\u1f95\u1f9d', E'\u1f25\u03b9'], [E'\u1f96\u1f9e', E'\u1f26\u03b9'],
        [E'\u1f97\u1f9f', E'\u1f27\u03b9'], [E'\u1fa0\u1fa8', E'\u1f60\u03b9'],
        [E'\u1fa1\u1fa9', E'\u1f61\u03b9'], [E'\u1fa2\u1faa', E'\u1f62\u03b9'],
        [E'\u1fa3\u1fab', E'\u1f63\u03b9'], [E'\u1fa4\u1fac', E'\u1f64\u03b9'],
        [E'\u1fa5\u1fad', E'\u1f65\u03b9'], [E'\u1fa6\u1fae', E'\u1f66\u03b9'],
        [E'\u1fa7\u1faf', E'\u1f67\u03b9'], [E'\u1fb2', E'\u1f70\u03b9'],
        [E'\u1fb3\u1fbc', E'\u03b1\u03b9'], [E'\u1fb4', E'\u03ac\u03b9'],
        [E'\u1fb6', E'\u03b1\u0342'], [E'\u1fb7', E'\u03b1\u0342\u03b9'],
        [E'\u1fc2', E'\u1f74\u03b9'], [E'\u1fc3\u1fcc', E'\u03b7\u03b9'],
        [E'\u1fc4', E'\u03ae\u03b9'], [E'\u1fc6', E'\u03b7\u0342'],
        [E'\u1fc7', E'\u03b7\u0342\u03b9'], [E'\u1fd2', E'\u03b9\u0308\u0300'],
        [E'\u1fd6', E'\u03b9\u0342'], [E'\u1fd7', E'\u03b9\u0308\u0342'],
        [E'\u1fe2', E'\u03c5\u0308\u0300'], [E'\u1fe4', E'\u03c1\u0313'],
        [E'\u1fe6', E'\u03c5\u0342'], [E'\u1fe7', E'\u03c5\u0308\u0342'],
        [E'\u1ff2', E'\u1f7c\u03b9'], [E'\u1ff3\u1ffc', E'\u03c9\u03b9'],
        [E'\u1ff4', E'\u03ce\u03b9'], [E'\u1ff6', E'\u03c9\u0342'],
        [E'\u1ff7', E'\u03c9\u0342\u03b9'], [E'\ufb00', E'ff'], [E'\ufb01', E'fi'],
        [E'\ufb02', E'fl'], [E'\ufb03', E'ffi'], [E'\ufb04', E'ffl'], [E'\ufb05\ufb06', E'st'],
        [E'\ufb13', E'\u0574\u0576'], [E'\ufb14', E'\u0574\u0565'], [E'\ufb15', E'\u0574\u056b'],
        [E'\ufb16', E'\u057e\u0576'], [E'\ufb17', E'\u0574\u056d']
    ];
    run int[];
    folding text[];
    simple_from text := '';
    simple_to text := '';
    expanded text := '';
    pairs text[] := '{}';
BEGIN
    FOREACH run SLICE 1 IN ARRAY simple LOOP
        FOR code IN run[1]..run[2] BY run[3] LOOP
            simple_from := simple_from || chr(code);
            simple_to := simple_to || chr(code - run[1] + run[4]);
        END LOOP;
    END LOOP;
    FOREACH folding SLICE 1 IN ARRAY expanding LOOP
        expanded := expanded || folding[1];
        FOR place IN 1..length(folding[1]) LOOP
            pairs := pairs || ARRAY[[substr(folding[1], place, 1), folding[2]]];
        END LOOP;
    END LOOP;
    EXECUTE format($definition$
        CREATE FUNCTION fold_case(given text) RETURNS text
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
        DECLARE
            folded text;
            pair text[];
        BEGIN
            IF octet_length(given) = char_length(given) THEN
                RETURN lower(given COLLATE "C");
            END IF;
            folded := translate(given, %1$L, %2$L);
            IF folded ~ %3$L THEN
                FOREACH pair SLICE 1 IN ARRAY %4$L::text[] LOOP
                    folded := replace(folded, pair[1], pair[2]);
                END LOOP;
            END IF;
            RETURN folded;
        END
        $$
    $definition$, simple_from, simple_to, format('[%s]', expanded), pairs);
END
$migration$;

CREATE INDEX entities_service_names
    ON entities (left(fold_case(attributes ->> 'name'), 256) COLLATE "C")
    WHERE collection = '/endpoints' AND attributes -> 'usage' ? 'subscriber';


-- What restricted clients see

-- The relations that clients read, by the same names and without what they may not see. The
-- connections of restricted clients have this schema first in their search_path, so that every
-- statement reads these. Their setting `concord.rules` is an array of the rules that let them see
-- groups. A connection without it sees nothing: it fails.
CREATE SCHEMA visible;

DO $migration$
DECLARE
    path CONSTANT text := current_setting('search_path');
    relation text;
    definition text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['entities', 'documents', 'tombstones', 'changes'] LOOP
        EXECUTE format($definition$
            CREATE VIEW visible.%1$I AS
            SELECT * FROM public.%1$I e
            WHERE xid = '/'
                OR EXISTS (
                    SELECT FROM access_paths
                    WHERE rule = ANY ((SELECT current_setting('concord.rules')::text[])::text[])
                        AND path = access_group(e.xid)
                )
                OR access_group(xid) LIKE ANY ((
                    SELECT array_agg(pattern) FROM access_paths
                    WHERE rule = ANY ((SELECT current_setting('concord.rules')::text[])::text[])
                        AND pattern IS NOT NULL
                )::text[])
        $definition$, relation);
    END LOOP;
    FOREACH relation IN ARRAY
        ARRAY['resources_shown', 'listed', 'borrowed', 'kept', 'lent', 'shown']
    LOOP
        PERFORM set_config('search_path', 'public', true);
        definition := pg_get_viewdef(relation::regclass);
        -- The definition names no schemas, so its relations are now the ones above.
        PERFORM set_config('search_path', 'visible, public', true);
        EXECUTE format('CREATE VIEW visible.%I AS %s', relation, definition);
    END LOOP;
    PERFORM set_config('search_path', path, true);
END
$migration$;
