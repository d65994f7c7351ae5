-- The catalog: who this node is, its entities and documents, what is left of deleted ones,
-- the change log, and what subscriptions and links need to go on after a crash.

CREATE TABLE node (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    instance uuid NOT NULL,
    authority text NOT NULL,
    modelsource jsonb NOT NULL
);

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
    bucket integer NOT NULL CHECK (bucket BETWEEN 0 AND 65535)
);
-- Ids are unique among their siblings whatever their case, and pages are in this order.
CREATE UNIQUE INDEX entities_sibling ON entities (collection, lower(id) COLLATE "C");
CREATE UNIQUE INDEX entities_origin ON entities (authority, origin);
-- Fingerprints of buckets are summed from the index alone.
CREATE INDEX entities_bucket ON entities (bucket) INCLUDE (fingerprint);

CREATE TABLE documents (
    xid text COLLATE "C" PRIMARY KEY REFERENCES entities (xid) ON DELETE CASCADE,
    body bytea NOT NULL
);
CREATE TABLE tombstones (
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    bucket integer NOT NULL,
    deletedat timestamptz NOT NULL,
    PRIMARY KEY (authority, origin)
);
CREATE INDEX tombstones_bucket ON tombstones (bucket);

-- A position in the log is (txid, seq). Rows of a transaction are shown only when every
-- transaction with a lower id has ended, so positions appear in ascending order and a
-- reader that goes on from the last one it saw skips nothing.
CREATE TABLE changes (
    txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    interaction text NOT NULL,
    at timestamptz NOT NULL,
    xid text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    action text NOT NULL CHECK (action IN ('created', 'updated', 'deleted')),
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    changed text[] NOT NULL,
    deprecation text[],
    PRIMARY KEY (txid, seq)
);

-- A revision is new with every replacement, so that whoever delivers notices it.
CREATE SEQUENCE subscriptions_revision;
CREATE TABLE subscriptions (
    id text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL,
    sinkcredential jsonb,
    revision bigint NOT NULL DEFAULT nextval('subscriptions_revision'),
    txid bigint NOT NULL,
    seq bigint NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'ended')),
    failures integer NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    deliveredat timestamptz,
    error text
);

CREATE TABLE links (
    id text PRIMARY KEY,
    definition jsonb NOT NULL,
    instance uuid,
    cursor text,
    subscription text,
    state text NOT NULL DEFAULT 'new',
    failures integer NOT NULL DEFAULT 0,
    applied bigint NOT NULL DEFAULT 0,
    appliedat timestamptz,
    error text
);

-- What a link could not apply, and why; an entity leaves when it is applied after all.
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

-- Locks what an interaction will write and answers with the rows that it touches.
--
-- Advisory locks take no transaction id, so an interaction gets its id only when it holds
-- all of them: of two interactions on one entity, the later one has the higher id, and
-- the change log shows an entity's changes in the order in which they were made.
-- Everybody takes keys in ascending order, so no two wait for each other.
--
-- The catalog is always shared (or taken whole by bulk work). A group is exclusive where
-- children come or go, the registry where groups do; else a group is shared and each
-- resource is exclusive. If what is missing changed while waiting, SQLSTATE CC001 asks
-- the caller to begin again with everything exclusive.
CREATE FUNCTION lock_and_load(
    group_xids text[],
    resource_xids text[],
    registry_exclusive boolean,
    groups_exclusive boolean,
    catalog_exclusive boolean
) RETURNS SETOF entities LANGUAGE plpgsql AS $$
DECLARE
    lock record;
    take_registry boolean;
    take_groups boolean;
BEGIN
    take_registry := registry_exclusive OR lacks_some(group_xids);
    take_groups := take_registry OR groups_exclusive OR lacks_some(resource_xids);
    FOR lock IN
        SELECT key, bool_or(exclusive) AS exclusive
        FROM (
            SELECT hashtextextended('catalog', 0) AS key, catalog_exclusive AS exclusive
            UNION ALL
            SELECT hashtextextended('/', 0), true WHERE take_registry
            UNION ALL
            SELECT hashtextextended(xid, 0), take_groups FROM unnest(group_xids) AS xid
            UNION ALL
            SELECT hashtextextended(xid, 0), true FROM unnest(resource_xids) AS xid
            WHERE NOT take_groups
        ) AS wanted
        WHERE NOT catalog_exclusive OR exclusive AND key = hashtextextended('catalog', 0)
        GROUP BY key
        ORDER BY key
    LOOP
        IF lock.exclusive THEN
            PERFORM pg_advisory_xact_lock(lock.key);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(lock.key);
        END IF;
    END LOOP;
    IF NOT catalog_exclusive AND (
        NOT take_registry AND lacks_some(group_xids)
        OR NOT take_groups AND lacks_some(resource_xids)
    ) THEN
        RAISE EXCEPTION 'what this interaction touches changed' USING ERRCODE = 'CC001';
    END IF;
    RETURN QUERY
        SELECT * FROM entities WHERE xid = ANY (group_xids || resource_xids || ARRAY['/'])
        UNION ALL
        SELECT * FROM entities
        WHERE collection = ANY (SELECT r || '/versions' FROM unnest(resource_xids) AS r);
END
$$;

CREATE FUNCTION lacks_some(xids text[]) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(xids) AS wanted
        WHERE NOT EXISTS (SELECT FROM entities WHERE xid = wanted)
    )
$$;
