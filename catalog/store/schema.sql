-- The schema after all migrations. Generated with `make schema`; do not edit.

CREATE SCHEMA visible;

CREATE FUNCTION access_group(xid text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (lower(((('/'::text || split_part(xid, '/'::text, 2)) || '/'::text) || split_part(xid, '/'::text, 3))) COLLATE "C");

CREATE FUNCTION all_errors(errors jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT (COALESCE(sum((jsonb_each_text.value)::bigint), (0)::numeric))::bigint AS "coalesce" FROM jsonb_each_text(all_errors.errors) jsonb_each_text(key, value));

CREATE FUNCTION counted_error(errors jsonb, class text, more integer) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ((class IS NULL) OR (more = 0)) THEN errors ELSE (errors || jsonb_build_object(class, (COALESCE(((errors ->> class))::bigint, (0)::bigint) + more))) END;

CREATE FUNCTION fold_case(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
        DECLARE
            folded text;
            pair text[];
        BEGIN
            IF octet_length(given) = char_length(given) THEN
                RETURN lower(given COLLATE "C");
            END IF;
            folded := translate(given, 'ABCDEFGHIJKLMNOPQRSTUVWXYZµÀÁÂÃÄÅÆÇÈÉÊËÌ ...', 'abcdefghijklmnopqrstuvwxyzμàáâãäåæçèéêëì ...');
            IF folded ~ '[ßẞİŉǰΐΐΰΰևẖẗẘẙẚὐὒὔὖᾀᾈᾁᾉᾂᾊᾃᾋᾄᾌᾅᾍᾆᾎᾇᾏᾐᾘᾑᾙ ...' THEN
                FOREACH pair SLICE 1 IN ARRAY '{{ß,ss},{ẞ,ss},{İ,i̇},{ŉ,ʼn},{ǰ,ǰ},{ΐ,ι ...'::text[] LOOP
                    folded := replace(folded, pair[1], pair[2]);
                END LOOP;
            END IF;
            RETURN folded;
        END
        $$;

CREATE FUNCTION has_labels(attributes jsonb, wanted text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE((SELECT bool_and(CASE WHEN (strpos(label.label, '='::text) = 0) THEN ((has_labels.attributes -> 'labels'::text) ? label.label) ELSE (((has_labels.attributes -> 'labels'::text) ->> split_part(label.label, '='::text, 1)) = substr(label.label, (strpos(label.label, '='::text) + 1))) END) AS bool_and FROM unnest(has_labels.wanted) label(label)), false);

CREATE TABLE entities (
    xid text NOT NULL COLLATE "C",
    collection text NOT NULL COLLATE "C",
    id text NOT NULL COLLATE "C",
    kind text NOT NULL,
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    epoch bigint NOT NULL,
    attributes jsonb NOT NULL,
    createdat timestamp with time zone NOT NULL,
    modifiedat timestamp with time zone NOT NULL,
    document_sha256 bytea,
    digest bytea NOT NULL,
    fingerprint bigint NOT NULL,
    bucket integer NOT NULL,
    listing text COLLATE "C",
    listing_id text COLLATE "C",
    signature bytea,
    signedby text COLLATE "C",
    replaced jsonb,
    CONSTRAINT entities_bucket_check CHECK (((bucket >= 0) AND (bucket <= 65535))),
    CONSTRAINT entities_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT entities_kind_check CHECK ((kind = ANY (ARRAY['registry'::text, 'group'::text, 'resource'::text, 'version'::text])))
);

CREATE FUNCTION is_labelled(entity_xid text, wanted text[]) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((EXISTS (SELECT FROM entities g WHERE ((g.xid = ((('/'::text || split_part(is_labelled.entity_xid, '/'::text, 2)) || '/'::text) || split_part(is_labelled.entity_xid, '/'::text, 3))) AND has_labels(g.attributes, is_labelled.wanted)))) OR ((split_part(entity_xid, '/'::text, 4) <> ''::text) AND (EXISTS (SELECT FROM (entities r JOIN entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text))))) WHERE ((r.xid = ((((((('/'::text || split_part(is_labelled.entity_xid, '/'::text, 2)) || '/'::text) || split_part(is_labelled.entity_xid, '/'::text, 3)) || '/'::text) || split_part(is_labelled.entity_xid, '/'::text, 4)) || '/'::text) || split_part(is_labelled.entity_xid, '/'::text, 5))) AND has_labels(v.attributes, is_labelled.wanted))))) OR ((split_part(entity_xid, '/'::text, 4) = ''::text) AND (EXISTS (SELECT FROM (entities r JOIN entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text))))) WHERE ((r.xid > (is_labelled.entity_xid || '/'::text)) AND (r.xid < (is_labelled.entity_xid || '0'::text)) AND (r.kind = 'resource'::text) AND has_labels(v.attributes, is_labelled.wanted))))));

CREATE FUNCTION is_own_change(kind text, action text, changed text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((action <> 'updated'::text) OR CASE kind WHEN 'version'::text THEN true WHEN 'resource'::text THEN ((changed <@ ARRAY['meta.epoch'::text, 'meta.modifiedat'::text]) OR (EXISTS (SELECT FROM unnest(is_own_change.changed) c(name) WHERE (starts_with(c.name, 'meta.'::text) AND (c.name <> ALL (ARRAY['meta.epoch'::text, 'meta.modifiedat'::text])))))) ELSE ((changed <@ ARRAY['epoch'::text, 'modifiedat'::text]) OR (EXISTS (SELECT FROM unnest( ...'epoch'::text, 'modifiedat'::text])) AND ((c.name || 'count'::text) <> ALL (is_own_change.changed)) AND ((c.name !~~ '%count'::text) OR ("left"(c.name, '-5'::integer) <> ALL (is_own_change.changed))))))) END);

CREATE FUNCTION is_selected(origin text, scope text[], types text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((cardinality(scope) = 0) OR (EXISTS (SELECT FROM unnest(is_selected.scope) path(path) WHERE ((is_selected.origin = path.path) OR starts_with(is_selected.origin, (path.path || '/'::text)) OR starts_with(path.path, (is_selected.origin || '/'::text)))))) AND ((cardinality(types) =  ...'/'::text, 2) = split_part(type.type, '/'::text, 1)) AND ((split_part(type.type, '/'::text, 2) = ''::text) OR ((split_part(is_selected.origin, '/'::text, 4) = ''::text) OR (split_part(is_selected.origin, '/'::text, 4) = split_part(type.type, '/'::text, 2)))))))));

CREATE FUNCTION keep_link_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE former_counts
    SET applied = applied + OLD.applied, errors = errors + all_errors(OLD.errors);
    RETURN NULL;
END
$$;

CREATE FUNCTION keep_subscription_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE former_counts SET delivered = delivered + OLD.delivered, failed = failed + OLD.failed,
        failedattempts = failedattempts + OLD.failedattempts;
    RETURN NULL;
END
$$;

CREATE FUNCTION lock_and_load(group_xids text[], resource_xids text[], registry_exclusive boolean, groups_exclusive boolean, catalog_exclusive boolean, expected_revision bigint, refused_at text[]) RETURNS TABLE(entity entities, is_referred boolean, has_lived boolean, signing_key integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION log_subscription() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION search_place(xid text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE split_part(xid, '/'::text, 4) WHEN ''::text THEN ('/'::text || split_part(xid, '/'::text, 2)) ELSE ((((('/'::text || split_part(xid, '/'::text, 2)) || '/'::text) || split_part(xid, '/'::text, 3)) || '/'::text) || split_part(xid, '/'::text, 4)) END;

CREATE FUNCTION search_document(xid text, id text, attributes jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (lower(((attributes || jsonb_object(ARRAY['$id'::text, COALESCE(NULLIF(split_part(xid, '/'::text, 5), ''::text), id), '$vid'::text, id, '$in'::text, search_place(xid)])))::text))::jsonb;

CREATE FUNCTION search_time(moment timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (rtrim(rtrim(to_char((moment AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US'::text), '0'::text), '.'::text) || 'Z'::text);

CREATE FUNCTION search_facts(xid text, authority text, epoch bigint, createdat timestamp with time zone, modifiedat timestamp with time zone, isdefault boolean) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN jsonb_build_object('xid', xid, '$authority', authority, 'epoch', epoch, 'createdat', search_time(createdat), 'modifiedat', search_time(modifiedat), 'isdefault', isdefault);

CREATE FUNCTION search_name(attributes jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN "left"(lower(COALESCE((attributes ->> 'name'::text), ''::text)), 256);

CREATE FUNCTION search_number(value jsonb) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number'::text THEN (value)::numeric ELSE (0)::numeric END;

CREATE FUNCTION search_part(entity_id text, version_id text, attributes jsonb, names text[], facts jsonb, with_facts boolean, meta jsonb, with_meta boolean) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (lower((((CASE WHEN (names IS NULL) THEN (attributes || jsonb_build_object('$id', entity_id, '$vid', version_id)) ELSE jsonb_build_object('$id', entity_id, '$vid', version_id, COALESCE((names)[1], ''::text), (attributes -> (names)[1]), COALESCE((names)[2], ''::text), (attributes -> (names)[2]), COALESCE((names)[3], ''::text), (attributes -> (names)[3]), COALESCE((names)[4], ''::text), (attributes -> (names)[4])) END || CASE WHEN with_facts THEN facts ELSE '{}'::jsonb END) || CASE WHEN with_meta THEN meta ELSE '{}'::jsonb END))::text))::jsonb;

CREATE FUNCTION search_rank(value jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number'::text THEN 1 WHEN 'boolean'::text THEN 2 WHEN 'string'::text THEN (((value <> '""'::jsonb))::integer * 2) ELSE 0 END;

CREATE FUNCTION search_text(value jsonb, suffix text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (jsonb_typeof(value) = ANY (ARRAY['boolean'::text, 'string'::text])) THEN "left"(rtrim((value #>> '{}'::text[]), suffix), 256) ELSE ''::text END;

CREATE FUNCTION short_key(xid text) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN SUBSTRING(sha256(decode(xid, 'escape'::text)) FROM 1 FOR 12);

CREATE TABLE access_paths (
    rule text NOT NULL COLLATE "C",
    path text NOT NULL COLLATE "C",
    pattern text COLLATE "C"
);

CREATE TABLE access_requests (
    id text NOT NULL COLLATE "C",
    number bigint NOT NULL,
    who text NOT NULL COLLATE "C",
    name text NOT NULL,
    role text NOT NULL,
    path text NOT NULL COLLATE "C",
    reason text NOT NULL,
    state text NOT NULL,
    createdat timestamp with time zone NOT NULL,
    decidedat timestamp with time zone,
    decidedby text,
    note text,
    rule text,
    CONSTRAINT access_requests_check CHECK (((decidedat IS NULL) = (state = 'open'::text))),
    CONSTRAINT access_requests_role_check CHECK ((role = ANY (ARRAY['reader'::text, 'writer'::text, 'replicator'::text, 'admin'::text]))),
    CONSTRAINT access_requests_state_check CHECK ((state = ANY (ARRAY['open'::text, 'granted'::text, 'declined'::text])))
);

ALTER TABLE access_requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME access_requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE access_rules (
    id text NOT NULL COLLATE "C",
    who text NOT NULL,
    role text NOT NULL,
    createdat timestamp with time zone NOT NULL,
    createdby text NOT NULL
);

CREATE TABLE access_tokens (
    id text NOT NULL COLLATE "C",
    digest bytea NOT NULL,
    name text NOT NULL,
    grants json NOT NULL,
    createdat timestamp with time zone NOT NULL,
    expiresat timestamp with time zone,
    usedat timestamp with time zone
);

CREATE TABLE allowances (
    authority text NOT NULL COLLATE "C",
    digest text NOT NULL,
    link text,
    is_followed boolean NOT NULL
);

CREATE TABLE audit (
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    seq bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    kind text NOT NULL COLLATE "C",
    name text NOT NULL COLLATE "C",
    issuer text NOT NULL COLLATE "C",
    address text NOT NULL COLLATE "C",
    agent text NOT NULL COLLATE "C",
    method text NOT NULL COLLATE "C",
    path text NOT NULL COLLATE "C",
    interaction text COLLATE "C",
    actions text[],
    targets text[] NOT NULL,
    changed integer,
    status integer,
    reason text COLLATE "C",
    attempts integer,
    places text[] DEFAULT '{}'::text[] NOT NULL COLLATE "C",
    CONSTRAINT audit_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'refused'::text])))
);

ALTER TABLE audit ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME audit_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE authority_keys (
    number integer NOT NULL,
    publickey bytea NOT NULL,
    sealed bytea,
    createdat timestamp with time zone NOT NULL,
    endorsement bytea,
    retiredat timestamp with time zone,
    revokedat timestamp with time zone
);

CREATE VIEW borrowed AS
 SELECT x.collection AS listing,
    (lower(x.id) COLLATE "C") AS listing_id,
    x.xid,
    (search_name(v.attributes) COLLATE "C") AS name,
    COALESCE(v.modifiedat, '-infinity'::timestamp with time zone) AS modifiedat,
    search_document(x.xid, v.id, COALESCE(v.attributes, '{}'::jsonb)) AS document,
    x.id AS entity_id,
    v.id AS version_id,
    COALESCE(v.attributes, '{}'::jsonb) AS attributes,
    search_facts(x.xid, x.authority, v.epoch, v.createdat, v.modifiedat, ((v.id IS NOT NULL) OR NULL::boolean)) AS facts,
    jsonb_build_object('$meta', ((COALESCE(r.attributes, '{}'::jsonb) || x.attributes) || search_facts((x.xid || '/meta'::text), x.authority, r.epoch, r.createdat, r.modifiedat, NULL::boolean))) AS meta
   FROM ((entities x
     LEFT JOIN entities r ON (((r.xid = (x.attributes ->> 'xref'::text)) AND (NOT (r.attributes ? 'xref'::text)))))
     LEFT JOIN entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text)))))
  WHERE ((x.kind = 'resource'::text) AND (x.attributes ? 'xref'::text));

CREATE TABLE links (
    id text NOT NULL,
    revision bigint NOT NULL,
    definition jsonb NOT NULL,
    instance uuid,
    authority text,
    cursor text,
    subscription text,
    state text DEFAULT 'new'::text NOT NULL,
    paused text,
    failures integer DEFAULT 0 NOT NULL,
    nextattemptat timestamp with time zone,
    applied bigint DEFAULT 0 NOT NULL,
    appliedat timestamp with time zone,
    currentat timestamp with time zone,
    error text,
    history jsonb DEFAULT '[]'::jsonb NOT NULL,
    base text COLLATE "C",
    doubts boolean DEFAULT true NOT NULL,
    drops text[] DEFAULT '{}'::text[] NOT NULL,
    ends boolean DEFAULT false NOT NULL,
    copiesall boolean DEFAULT false NOT NULL,
    question jsonb,
    former jsonb,
    bytes bigint DEFAULT 0 NOT NULL,
    behind bigint,
    minuteat timestamp with time zone,
    minutecopies bigint DEFAULT 0 NOT NULL,
    earliercopies bigint DEFAULT 0 NOT NULL,
    copyat timestamp with time zone,
    copied bigint DEFAULT 0 NOT NULL,
    copyof bigint,
    errors jsonb DEFAULT '{}'::jsonb NOT NULL,
    sealed bytea,
    credential jsonb,
    loss text,
    comparedat timestamp with time zone,
    differing bigint,
    CONSTRAINT links_check CHECK (((paused IS NOT NULL) = (state = 'paused'::text))),
    CONSTRAINT links_state_check CHECK ((state = ANY (ARRAY['new'::text, 'copying'::text, 'behind'::text, 'current'::text, 'waiting'::text, 'unauthenticated'::text, 'forbidden'::text, 'refused'::text, 'asking'::text, 'paused'::text])))
);

CREATE VIEW bringing_links AS
 SELECT id,
    revision,
    definition,
    instance,
    authority,
    cursor,
    subscription,
    state,
    paused,
    failures,
    nextattemptat,
    applied,
    appliedat,
    currentat,
    error,
    history,
    base,
    doubts,
    drops,
    ends,
    copiesall,
    question,
    former,
    bytes,
    behind,
    minuteat,
    minutecopies,
    earliercopies,
    copyat,
    copied,
    copyof,
    errors,
    sealed,
    credential
   FROM links
  WHERE ((definition ->> 'mode'::text) <> ALL (ARRAY['push'::text, 'publish'::text, 'write'::text]));

CREATE TABLE changes (
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    seq bigint NOT NULL,
    interaction text NOT NULL,
    at timestamp with time zone NOT NULL,
    xid text NOT NULL COLLATE "C",
    kind text NOT NULL,
    action text NOT NULL,
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    changed text[] NOT NULL,
    deprecation text[],
    traceparent text,
    tracestate text,
    author jsonb,
    CONSTRAINT changes_action_check CHECK ((action = ANY (ARRAY['created'::text, 'updated'::text, 'deleted'::text, 'signed'::text, 'handed'::text])))
);

ALTER TABLE changes ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME changes_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE clock_points (
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    measured double precision NOT NULL,
    jump double precision
);

CREATE TABLE comparison_findings (
    run uuid NOT NULL,
    number integer NOT NULL,
    finding text NOT NULL COLLATE "C",
    catalog text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    content jsonb NOT NULL,
    CONSTRAINT comparison_findings_number_check CHECK ((number >= 0))
);

CREATE TABLE conflicts (
    link text NOT NULL,
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    xid text NOT NULL COLLATE "C",
    epoch bigint NOT NULL,
    verdict text NOT NULL,
    detail text NOT NULL,
    at timestamp with time zone NOT NULL,
    refused bytea
);

CREATE TABLE console_sessions (
    digest bytea NOT NULL,
    token bytea NOT NULL,
    createdat timestamp with time zone NOT NULL,
    usedat timestamp with time zone NOT NULL,
    renewingat timestamp with time zone
);

CREATE TABLE dead_letters (
    subscription text NOT NULL COLLATE "C",
    number bigint NOT NULL,
    eventid text NOT NULL COLLATE "C",
    subject text NOT NULL COLLATE "C",
    xid text COLLATE "C",
    event bytea NOT NULL,
    at timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    state text NOT NULL,
    CONSTRAINT dead_letters_state_check CHECK ((state = ANY (ARRAY['dead'::text, 'waiting'::text, 'due'::text])))
);

ALTER TABLE dead_letters ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dead_letters_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE delivery_attempts (
    subscription text NOT NULL COLLATE "C",
    number bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    events integer NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    milliseconds integer NOT NULL,
    CONSTRAINT delivery_attempts_outcome_check CHECK ((outcome = ANY (ARRAY['delivered'::text, 'refused'::text, 'gone'::text])))
);

ALTER TABLE delivery_attempts ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME delivery_attempts_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE delivery_leases (
    shard integer NOT NULL,
    process uuid
);

CREATE TABLE delivery_processes (
    id uuid NOT NULL,
    until timestamp with time zone NOT NULL,
    backend integer NOT NULL,
    backend_start timestamp with time zone NOT NULL
);

CREATE TABLE documents (
    xid text NOT NULL COLLATE "C",
    body bytea NOT NULL
);

CREATE TABLE doubted_copies (
    link text NOT NULL,
    origin text NOT NULL COLLATE "C",
    digest bytea NOT NULL,
    overruled boolean DEFAULT true NOT NULL
);

CREATE TABLE followers (
    id text NOT NULL COLLATE "C",
    authority text NOT NULL COLLATE "C",
    identity text NOT NULL,
    card jsonb,
    selection jsonb NOT NULL,
    instance uuid NOT NULL,
    txid bigint NOT NULL,
    seq bigint NOT NULL,
    seenat timestamp with time zone NOT NULL
);

CREATE TABLE former_counts (
    singleton boolean DEFAULT true NOT NULL,
    delivered bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    failedattempts bigint DEFAULT 0 NOT NULL,
    applied bigint DEFAULT 0 NOT NULL,
    errors bigint DEFAULT 0 NOT NULL,
    CONSTRAINT former_counts_singleton_check CHECK (singleton)
);

CREATE TABLE handover_copies (
    handover text NOT NULL COLLATE "C",
    number integer NOT NULL,
    line bytea NOT NULL
);

CREATE TABLE handovers (
    id text NOT NULL COLLATE "C",
    role text NOT NULL,
    xid text NOT NULL COLLATE "C",
    peer text NOT NULL,
    authority text NOT NULL COLLATE "C",
    state text NOT NULL,
    theirs text COLLATE "C",
    floor bigint DEFAULT 0 NOT NULL,
    entities bigint,
    failures integer DEFAULT 0 NOT NULL,
    nextattemptat timestamp with time zone,
    error text,
    startedat timestamp with time zone NOT NULL,
    endedat timestamp with time zone,
    sealed bytea,
    CONSTRAINT handovers_role_check CHECK ((role = ANY (ARRAY['give'::text, 'take'::text]))),
    CONSTRAINT handovers_state_check CHECK ((state = ANY (ARRAY['offered'::text, 'given'::text, 'consented'::text, 'asked'::text, 'promised'::text, 'done'::text, 'aborted'::text])))
);

CREATE TABLE incarnations (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    startedat timestamp with time zone DEFAULT now() NOT NULL
);

CREATE VIEW kept AS
 SELECT collection AS listing,
    (lower(id) COLLATE "C") AS listing_id,
    xid,
    (search_name(attributes) COLLATE "C") AS name,
    modifiedat,
    search_document(xid, id, attributes) AS document,
    split_part(xid, '/'::text, 5) AS entity_id,
    id AS version_id,
    attributes,
    search_facts(xid, authority, epoch, createdat, modifiedat,
        CASE kind
            WHEN 'version'::text THEN (listing IS NOT NULL)
            ELSE NULL::boolean
        END) AS facts,
    '{}'::jsonb AS meta
   FROM entities e
  WHERE ((kind <> 'resource'::text) AND (kind <> 'group'::text));

CREATE TABLE key_histories (
    authority text NOT NULL COLLATE "C",
    history json NOT NULL
);

CREATE VIEW lent AS
 SELECT (x.xid || '/versions'::text) AS listing,
    (lower(v.id) COLLATE "C") AS listing_id,
    ((x.xid || '/versions/'::text) || v.id) AS xid,
    (search_name(v.attributes) COLLATE "C") AS name,
    v.modifiedat,
    search_document(x.xid, v.id, v.attributes) AS document,
    x.id AS entity_id,
    v.id AS version_id,
    v.attributes,
    search_facts(((x.xid || '/versions/'::text) || v.id), x.authority, v.epoch, v.createdat, v.modifiedat, (v.listing IS NOT NULL)) AS facts,
    '{}'::jsonb AS meta
   FROM (entities x
     JOIN entities v ON (((v.kind = 'version'::text) AND (v.collection = ((x.attributes ->> 'xref'::text) || '/versions'::text)))))
  WHERE ((x.kind = 'resource'::text) AND (x.attributes ? 'xref'::text));

CREATE TABLE link_figures (
    link text NOT NULL,
    step integer NOT NULL,
    at timestamp with time zone NOT NULL,
    lag real,
    copies bigint NOT NULL,
    errors bigint NOT NULL
);

CREATE TABLE link_losses (
    link text NOT NULL,
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    state text NOT NULL,
    CONSTRAINT link_losses_state_check CHECK ((state = ANY (ARRAY['gone'::text, 'asked'::text, 'allowed'::text])))
);

ALTER TABLE links ALTER COLUMN revision ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME links_revision_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW listed AS
 SELECT listing,
    listing_id,
        CASE kind
            WHEN 'group'::text THEN xid
            ELSE "left"(collection, '-9'::integer)
        END AS xid,
    (search_name(attributes) COLLATE "C") AS name,
    modifiedat,
    search_document(xid, id, attributes) AS document,
    listing_id AS entity_id,
    id AS version_id,
    attributes,
    search_facts(
        CASE kind
            WHEN 'group'::text THEN xid
            ELSE "left"(collection, '-9'::integer)
        END, authority, epoch, createdat, modifiedat, ((kind = 'version'::text) OR NULL::boolean)) AS facts,
    ( SELECT jsonb_build_object('$meta', (r.attributes || search_facts((r.xid || '/meta'::text), r.authority, r.epoch, r.createdat, r.modifiedat, NULL::boolean))) AS jsonb_build_object
           FROM entities r
          WHERE (r.xid = "left"(e.collection, '-9'::integer))) AS meta
   FROM entities e
  WHERE (kind <> 'resource'::text);

CREATE TABLE migrations (
    number integer NOT NULL,
    name text NOT NULL,
    checksum bytea NOT NULL,
    appliedat timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE node (
    singleton boolean DEFAULT true NOT NULL,
    instance uuid NOT NULL,
    home text,
    authority text NOT NULL,
    modelsource json NOT NULL,
    dropped_txid bigint DEFAULT 0 NOT NULL,
    dropped_seq bigint DEFAULT 0 NOT NULL,
    dropped_subscription_txid bigint DEFAULT 0 NOT NULL,
    dropped_subscription_seq bigint DEFAULT 0 NOT NULL,
    dropped_audit_txid bigint DEFAULT 0 NOT NULL,
    dropped_audit_seq bigint DEFAULT 0 NOT NULL,
    resolved json,
    capabilities json,
    revision bigint DEFAULT 0 NOT NULL,
    gate text DEFAULT 'open'::text NOT NULL,
    signingkey integer,
    signsafter text COLLATE "C",
    access_revision bigint DEFAULT 0 NOT NULL,
    backedupat timestamp with time zone,
    unindexedafter text DEFAULT ''::text COLLATE "C",
    revisionsafter bigint DEFAULT 0,
    CONSTRAINT node_gate_check CHECK ((gate = ANY (ARRAY['open'::text, 'model'::text, 'closed'::text]))),
    CONSTRAINT node_singleton_check CHECK (singleton)
);

CREATE TABLE peer_authorities (
    authority text NOT NULL COLLATE "C",
    card jsonb,
    cardat timestamp with time zone,
    links jsonb,
    linksat timestamp with time zone,
    triedat timestamp with time zone,
    error text
);

CREATE TABLE reconciliations (
    run uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    startedat timestamp with time zone NOT NULL,
    endedat timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    name text NOT NULL,
    catalogs text[] NOT NULL,
    findings jsonb NOT NULL,
    unverifiable bigint NOT NULL,
    repaired bigint,
    error text,
    entities jsonb DEFAULT '{}'::jsonb NOT NULL,
    compared jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT reconciliations_outcome_check CHECK ((outcome = ANY (ARRAY['equal'::text, 'different'::text, 'failed'::text])))
);

CREATE TABLE recovery (
    singleton boolean DEFAULT true NOT NULL,
    state text NOT NULL,
    named text[] DEFAULT '{}'::text[] NOT NULL,
    unsigned boolean DEFAULT false NOT NULL,
    keys text[],
    allowed bigint DEFAULT 0 NOT NULL,
    startedat timestamp with time zone NOT NULL,
    endedat timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    nextattemptat timestamp with time zone,
    error text,
    taken bigint DEFAULT 0 NOT NULL,
    kept bigint DEFAULT 0 NOT NULL,
    CONSTRAINT recovery_singleton_check CHECK (singleton),
    CONSTRAINT recovery_state_check CHECK ((state = ANY (ARRAY['awaited'::text, 'reading'::text, 'taking'::text, 'asking'::text, 'blocked'::text, 'burying'::text, 'done'::text, 'aborted'::text])))
);

CREATE TABLE recovery_choices (
    origin text NOT NULL COLLATE "C",
    epoch bigint NOT NULL,
    deleted boolean NOT NULL,
    digest bytea NOT NULL,
    rank integer NOT NULL,
    votes integer NOT NULL,
    rivals integer NOT NULL,
    removes bigint DEFAULT 0 NOT NULL,
    state text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    CONSTRAINT recovery_choices_state_check CHECK ((state = ANY (ARRAY['wanted'::text, 'taken'::text, 'kept'::text, 'partial'::text, 'refused'::text, 'buried'::text])))
);

CREATE TABLE recovery_copies (
    origin text NOT NULL COLLATE "C",
    source integer NOT NULL,
    epoch bigint,
    deleted boolean NOT NULL,
    digest bytea NOT NULL,
    isspoilt boolean DEFAULT false NOT NULL,
    fault text
);

CREATE TABLE recovery_sources (
    number integer NOT NULL,
    url text NOT NULL,
    instance uuid,
    origins bigint DEFAULT 0 NOT NULL,
    unproven bigint DEFAULT 0 NOT NULL,
    isread boolean DEFAULT false NOT NULL,
    sealed bytea
);

ALTER TABLE recovery_sources ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME recovery_sources_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW resources_shown AS
 SELECT r.xid,
    r.id,
    r.kind,
    r.authority,
    r.origin,
    r.epoch,
    r.attributes,
    r.createdat,
    r.modifiedat,
    r.digest,
    r.document_sha256,
    v.xid AS v_xid,
    v.epoch AS v_epoch,
    v.attributes AS v_attributes,
    v.createdat AS v_createdat,
    v.modifiedat AS v_modifiedat,
    v.digest AS v_digest,
    v.document_sha256 AS v_document_sha256,
    v.authority AS v_authority,
    v.origin AS v_origin,
    ( SELECT count(*) AS count
           FROM entities c
          WHERE (c.collection = (r.xid || '/versions'::text))) AS versionscount
   FROM (entities r
     LEFT JOIN entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text)))));

CREATE TABLE revisions (
    xid text NOT NULL COLLATE "C",
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    epoch bigint NOT NULL,
    attributes jsonb,
    createdat timestamp with time zone NOT NULL,
    modifiedat timestamp with time zone NOT NULL,
    document_sha256 bytea,
    document bytea,
    size integer NOT NULL
);

CREATE TABLE schemaids (
    xid text NOT NULL COLLATE "C",
    instance uuid NOT NULL,
    next bigint NOT NULL,
    CONSTRAINT schemaids_next_check CHECK ((next > 0))
);

CREATE TABLE search_index (
    xid text NOT NULL COLLATE "C",
    is_listed boolean NOT NULL,
    type text NOT NULL COLLATE "C",
    authority text NOT NULL COLLATE "C",
    format text COLLATE "C",
    words tsvector NOT NULL,
    fields tsvector NOT NULL
);
ALTER TABLE ONLY search_index ALTER COLUMN words SET STATISTICS 0;
ALTER TABLE ONLY search_index ALTER COLUMN fields SET STATISTICS 0;

CREATE VIEW search_names AS
 SELECT jsonb_build_object('own', lower(authority)) AS names
   FROM node;

CREATE TABLE service_ids (
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    id uuid NOT NULL
);

CREATE TABLE service_requests (
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    deadline timestamp with time zone NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    body bytea DEFAULT '\x'::bytea NOT NULL,
    CONSTRAINT service_requests_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'done'::text, 'failed'::text])))
);

CREATE TABLE set_members (
    name text NOT NULL COLLATE "C",
    xid text NOT NULL COLLATE "C"
);

CREATE VIEW shown AS
 SELECT listed.listing,
    listed.listing_id,
    listed.xid,
    listed.name,
    listed.modifiedat,
    listed.document,
    listed.entity_id,
    listed.version_id,
    listed.attributes,
    listed.facts,
    listed.meta
   FROM listed
UNION ALL
 SELECT borrowed.listing,
    borrowed.listing_id,
    borrowed.xid,
    borrowed.name,
    borrowed.modifiedat,
    borrowed.document,
    borrowed.entity_id,
    borrowed.version_id,
    borrowed.attributes,
    borrowed.facts,
    borrowed.meta
   FROM borrowed
UNION ALL
 SELECT kept.listing,
    kept.listing_id,
    kept.xid,
    kept.name,
    kept.modifiedat,
    kept.document,
    kept.entity_id,
    kept.version_id,
    kept.attributes,
    kept.facts,
    kept.meta
   FROM kept
UNION ALL
 SELECT lent.listing,
    lent.listing_id,
    lent.xid,
    lent.name,
    lent.modifiedat,
    lent.document,
    lent.entity_id,
    lent.version_id,
    lent.attributes,
    lent.facts,
    lent.meta
   FROM lent;

CREATE TABLE signing_keys (
    subscription text NOT NULL COLLATE "C",
    id text NOT NULL COLLATE "C",
    scheme text NOT NULL,
    sealed bytea NOT NULL,
    publickey text,
    createdat timestamp with time zone NOT NULL,
    endsat timestamp with time zone,
    CONSTRAINT signing_keys_scheme_check CHECK ((scheme = ANY (ARRAY['hmac-sha256'::text, 'ed25519'::text])))
);

CREATE TABLE sink_consents (
    subscription text NOT NULL COLLATE "C",
    sinkorigin text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    askat timestamp with time zone,
    endsat timestamp with time zone NOT NULL,
    callbacks bytea[] DEFAULT '{}'::bytea[] NOT NULL,
    grantedat timestamp with time zone,
    requestorigin text,
    allowedrate integer
);

CREATE SEQUENCE subscriptions_revision
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE sink_credentials (
    subscription text NOT NULL COLLATE "C",
    revision bigint DEFAULT nextval('subscriptions_revision'::regclass) NOT NULL,
    sealed bytea NOT NULL,
    type text NOT NULL,
    scheme text,
    expiresat timestamp with time zone,
    endpoint text,
    refreshat timestamp with time zone,
    isclaimed boolean DEFAULT false NOT NULL,
    earlyat timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    error text,
    iswarned boolean DEFAULT false NOT NULL,
    CONSTRAINT sink_credentials_type_check CHECK ((type = ANY (ARRAY['PLAIN'::text, 'ACCESSTOKEN'::text, 'REFRESHTOKEN'::text])))
);

CREATE TABLE subscription_events (
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    seq bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    subscription text NOT NULL COLLATE "C",
    action text NOT NULL,
    data jsonb NOT NULL,
    createdby text COLLATE "C",
    CONSTRAINT subscription_events_action_check CHECK ((action = ANY (ARRAY['started'::text, 'updated'::text, 'ended'::text, 'failing'::text, 'recovered'::text, 'credentialexpiring'::text])))
);

ALTER TABLE subscription_events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME subscription_events_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE subscriptions (
    id text NOT NULL COLLATE "C",
    definition jsonb NOT NULL,
    revision bigint DEFAULT nextval('subscriptions_revision'::regclass) NOT NULL,
    log text DEFAULT 'changes'::text NOT NULL,
    course integer DEFAULT 0 NOT NULL,
    txid bigint NOT NULL,
    seq bigint NOT NULL,
    initial text COLLATE "C",
    state text DEFAULT 'active'::text NOT NULL,
    reason text,
    pausereason text,
    createdat timestamp with time zone DEFAULT now() NOT NULL,
    expiresat timestamp with time zone,
    delivered bigint DEFAULT 0 NOT NULL,
    deliveredat timestamp with time zone,
    failed bigint DEFAULT 0 NOT NULL,
    failedattempts bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    failingsince timestamp with time zone,
    failedat timestamp with time zone,
    failedcause text,
    error text,
    nextattemptat timestamp with time zone,
    tried integer DEFAULT 0 NOT NULL,
    triedsince timestamp with time zone,
    lostat timestamp with time zone,
    createdby text COLLATE "C",
    creator json,
    CONSTRAINT subscriptions_check CHECK (((state = 'pending'::text) OR (pausereason IS NULL))),
    CONSTRAINT subscriptions_log_check CHECK ((log = ANY (ARRAY['changes'::text, 'subscriptions'::text, 'audit'::text]))),
    CONSTRAINT subscriptions_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'active'::text, 'paused'::text, 'suspended'::text, 'expired'::text, 'ended'::text])))
);

CREATE VIEW subscriptions_shown AS
 SELECT id,
    definition,
    revision,
    log,
    course,
    txid,
    seq,
    initial,
    state,
    reason,
    pausereason,
    createdat,
    expiresat,
    delivered,
    deliveredat,
    failed,
    failedattempts,
    failures,
    failingsince,
    failedat,
    failedcause,
    error,
    nextattemptat,
    tried,
    triedsince,
    lostat,
    createdby,
    creator,
        CASE log
            WHEN 'changes'::text THEN ( SELECT count(*) AS count
               FROM ( SELECT
                       FROM changes c
                      WHERE (ROW(c.txid, c.seq) > ROW(s.txid, s.seq))
                      ORDER BY c.txid, c.seq
                     LIMIT 1000) unread)
            WHEN 'audit'::text THEN ( SELECT count(*) AS count
               FROM ( SELECT
                       FROM audit a
                      WHERE (ROW(a.txid, a.seq) > ROW(s.txid, s.seq))
                      ORDER BY a.txid, a.seq
                     LIMIT 1000) unread)
            ELSE ( SELECT count(*) AS count
               FROM ( SELECT
                       FROM subscription_events e
                      WHERE (ROW(e.txid, e.seq) > ROW(s.txid, s.seq))
                      ORDER BY e.txid, e.seq
                     LIMIT 1000) unread)
        END AS lag,
        CASE log
            WHEN 'changes'::text THEN ( SELECT c.at
               FROM changes c
              WHERE (ROW(c.txid, c.seq) > ROW(s.txid, s.seq))
              ORDER BY c.txid, c.seq
             LIMIT 1)
            WHEN 'audit'::text THEN ( SELECT a.at
               FROM audit a
              WHERE (ROW(a.txid, a.seq) > ROW(s.txid, s.seq))
              ORDER BY a.txid, a.seq
             LIMIT 1)
            ELSE ( SELECT e.at
               FROM subscription_events e
              WHERE (ROW(e.txid, e.seq) > ROW(s.txid, s.seq))
              ORDER BY e.txid, e.seq
             LIMIT 1)
        END AS oldestat
   FROM subscriptions s;

CREATE TABLE tombstones (
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    xid text NOT NULL COLLATE "C",
    kind text NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    bucket integer NOT NULL,
    deletedat timestamp with time zone NOT NULL,
    is_past boolean DEFAULT false NOT NULL,
    signature bytea,
    signedby text COLLATE "C"
);

CREATE TABLE trusted_keys (
    authority text NOT NULL COLLATE "C",
    number integer NOT NULL,
    publickey bytea NOT NULL,
    trustedat timestamp with time zone NOT NULL,
    reason text NOT NULL,
    revokedat timestamp with time zone,
    CONSTRAINT trusted_keys_reason_check CHECK ((reason = ANY (ARRAY['named'::text, 'first'::text, 'endorsed'::text])))
);

CREATE TABLE written_entities (
    link text NOT NULL,
    authority text NOT NULL COLLATE "C",
    origin text NOT NULL COLLATE "C",
    place text NOT NULL COLLATE "C",
    xid text NOT NULL COLLATE "C",
    target text NOT NULL COLLATE "C",
    path text NOT NULL COLLATE "C",
    digest bytea NOT NULL,
    tag text NOT NULL,
    is_adopted boolean NOT NULL
);

CREATE VIEW visible.entities AS
 SELECT xid,
    collection,
    id,
    kind,
    authority,
    origin,
    epoch,
    attributes,
    createdat,
    modifiedat,
    document_sha256,
    digest,
    fingerprint,
    bucket,
    listing,
    listing_id,
    signature,
    signedby,
    replaced
   FROM entities e
  WHERE ((xid = '/'::text) OR (EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

CREATE VIEW visible.borrowed AS
 SELECT x.collection AS listing,
    (lower(x.id) COLLATE "C") AS listing_id,
    x.xid,
    (search_name(v.attributes) COLLATE "C") AS name,
    COALESCE(v.modifiedat, '-infinity'::timestamp with time zone) AS modifiedat,
    search_document(x.xid, v.id, COALESCE(v.attributes, '{}'::jsonb)) AS document,
    x.id AS entity_id,
    v.id AS version_id,
    COALESCE(v.attributes, '{}'::jsonb) AS attributes,
    search_facts(x.xid, x.authority, v.epoch, v.createdat, v.modifiedat, ((v.id IS NOT NULL) OR NULL::boolean)) AS facts,
    jsonb_build_object('$meta', ((COALESCE(r.attributes, '{}'::jsonb) || x.attributes) || search_facts((x.xid || '/meta'::text), x.authority, r.epoch, r.createdat, r.modifiedat, NULL::boolean))) AS meta
   FROM ((visible.entities x
     LEFT JOIN visible.entities r ON (((r.xid = (x.attributes ->> 'xref'::text)) AND (NOT (r.attributes ? 'xref'::text)))))
     LEFT JOIN visible.entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text)))))
  WHERE ((x.kind = 'resource'::text) AND (x.attributes ? 'xref'::text));

CREATE VIEW visible.changes AS
 SELECT txid,
    seq,
    interaction,
    at,
    xid,
    kind,
    action,
    authority,
    origin,
    epoch,
    digest,
    changed,
    deprecation,
    traceparent,
    tracestate,
    author
   FROM changes e
  WHERE ((xid = '/'::text) OR (EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

CREATE VIEW visible.documents AS
 SELECT xid,
    body
   FROM documents e
  WHERE ((xid = '/'::text) OR (EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

CREATE VIEW visible.kept AS
 SELECT collection AS listing,
    (lower(id) COLLATE "C") AS listing_id,
    xid,
    (search_name(attributes) COLLATE "C") AS name,
    modifiedat,
    search_document(xid, id, attributes) AS document,
    split_part(xid, '/'::text, 5) AS entity_id,
    id AS version_id,
    attributes,
    search_facts(xid, authority, epoch, createdat, modifiedat,
        CASE kind
            WHEN 'version'::text THEN (listing IS NOT NULL)
            ELSE NULL::boolean
        END) AS facts,
    '{}'::jsonb AS meta
   FROM visible.entities e
  WHERE ((kind <> 'resource'::text) AND (kind <> 'group'::text));

CREATE VIEW visible.lent AS
 SELECT (x.xid || '/versions'::text) AS listing,
    (lower(v.id) COLLATE "C") AS listing_id,
    ((x.xid || '/versions/'::text) || v.id) AS xid,
    (search_name(v.attributes) COLLATE "C") AS name,
    v.modifiedat,
    search_document(x.xid, v.id, v.attributes) AS document,
    x.id AS entity_id,
    v.id AS version_id,
    v.attributes,
    search_facts(((x.xid || '/versions/'::text) || v.id), x.authority, v.epoch, v.createdat, v.modifiedat, (v.listing IS NOT NULL)) AS facts,
    '{}'::jsonb AS meta
   FROM (visible.entities x
     JOIN visible.entities v ON (((v.kind = 'version'::text) AND (v.collection = ((x.attributes ->> 'xref'::text) || '/versions'::text)))))
  WHERE ((x.kind = 'resource'::text) AND (x.attributes ? 'xref'::text));

CREATE VIEW visible.listed AS
 SELECT listing,
    listing_id,
        CASE kind
            WHEN 'group'::text THEN xid
            ELSE "left"(collection, '-9'::integer)
        END AS xid,
    (search_name(attributes) COLLATE "C") AS name,
    modifiedat,
    search_document(xid, id, attributes) AS document,
    listing_id AS entity_id,
    id AS version_id,
    attributes,
    search_facts(
        CASE kind
            WHEN 'group'::text THEN xid
            ELSE "left"(collection, '-9'::integer)
        END, authority, epoch, createdat, modifiedat, ((kind = 'version'::text) OR NULL::boolean)) AS facts,
    ( SELECT jsonb_build_object('$meta', (r.attributes || search_facts((r.xid || '/meta'::text), r.authority, r.epoch, r.createdat, r.modifiedat, NULL::boolean))) AS jsonb_build_object
           FROM visible.entities r
          WHERE (r.xid = "left"(e.collection, '-9'::integer))) AS meta
   FROM visible.entities e
  WHERE (kind <> 'resource'::text);

CREATE VIEW visible.resources_shown AS
 SELECT r.xid,
    r.id,
    r.kind,
    r.authority,
    r.origin,
    r.epoch,
    r.attributes,
    r.createdat,
    r.modifiedat,
    r.digest,
    r.document_sha256,
    v.xid AS v_xid,
    v.epoch AS v_epoch,
    v.attributes AS v_attributes,
    v.createdat AS v_createdat,
    v.modifiedat AS v_modifiedat,
    v.digest AS v_digest,
    v.document_sha256 AS v_document_sha256,
    v.authority AS v_authority,
    v.origin AS v_origin,
    ( SELECT count(*) AS count
           FROM visible.entities c
          WHERE (c.collection = (r.xid || '/versions'::text))) AS versionscount
   FROM (visible.entities r
     LEFT JOIN visible.entities v ON ((v.xid = ((r.xid || '/versions/'::text) || (r.attributes ->> 'defaultversionid'::text)))));

CREATE VIEW visible.revisions AS
 SELECT xid,
    txid,
    epoch,
    attributes,
    createdat,
    modifiedat,
    document_sha256,
    document,
    size
   FROM revisions e
  WHERE ((xid = '/'::text) OR (EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

CREATE VIEW visible.search_index AS
 SELECT xid,
    is_listed,
    type,
    authority,
    format,
    words,
    fields
   FROM search_index e
  WHERE ((EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

CREATE VIEW visible.shown AS
 SELECT listed.listing,
    listed.listing_id,
    listed.xid,
    listed.name,
    listed.modifiedat,
    listed.document,
    listed.entity_id,
    listed.version_id,
    listed.attributes,
    listed.facts,
    listed.meta
   FROM visible.listed
UNION ALL
 SELECT borrowed.listing,
    borrowed.listing_id,
    borrowed.xid,
    borrowed.name,
    borrowed.modifiedat,
    borrowed.document,
    borrowed.entity_id,
    borrowed.version_id,
    borrowed.attributes,
    borrowed.facts,
    borrowed.meta
   FROM visible.borrowed
UNION ALL
 SELECT kept.listing,
    kept.listing_id,
    kept.xid,
    kept.name,
    kept.modifiedat,
    kept.document,
    kept.entity_id,
    kept.version_id,
    kept.attributes,
    kept.facts,
    kept.meta
   FROM visible.kept
UNION ALL
 SELECT lent.listing,
    lent.listing_id,
    lent.xid,
    lent.name,
    lent.modifiedat,
    lent.document,
    lent.entity_id,
    lent.version_id,
    lent.attributes,
    lent.facts,
    lent.meta
   FROM visible.lent;

CREATE VIEW visible.tombstones AS
 SELECT authority,
    origin,
    xid,
    kind,
    epoch,
    digest,
    bucket,
    deletedat,
    is_past,
    signature,
    signedby
   FROM tombstones e
  WHERE ((xid = '/'::text) OR (EXISTS ( SELECT
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.path = access_group(e.xid))))) OR (access_group(xid) ~~ ANY (( SELECT array_agg(access_paths.pattern) AS array_agg
           FROM access_paths
          WHERE ((access_paths.rule = ANY (( SELECT (current_setting('concord.rules'::text))::text[] AS current_setting)::text[])) AND (access_paths.pattern IS NOT NULL)))::text[])));

ALTER TABLE ONLY access_paths
    ADD CONSTRAINT access_paths_pkey PRIMARY KEY (rule, path);

ALTER TABLE ONLY access_requests
    ADD CONSTRAINT access_requests_number_key UNIQUE (number);

ALTER TABLE ONLY access_requests
    ADD CONSTRAINT access_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY access_rules
    ADD CONSTRAINT access_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY access_tokens
    ADD CONSTRAINT access_tokens_digest_key UNIQUE (digest);

ALTER TABLE ONLY access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY allowances
    ADD CONSTRAINT allowances_pkey PRIMARY KEY (authority);

ALTER TABLE ONLY audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (txid, seq) INCLUDE (outcome);

ALTER TABLE ONLY authority_keys
    ADD CONSTRAINT authority_keys_pkey PRIMARY KEY (number);

ALTER TABLE ONLY changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (txid, seq);

ALTER TABLE ONLY clock_points
    ADD CONSTRAINT clock_points_pkey PRIMARY KEY (txid);

ALTER TABLE ONLY comparison_findings
    ADD CONSTRAINT comparison_findings_pkey PRIMARY KEY (run, number);

ALTER TABLE ONLY conflicts
    ADD CONSTRAINT conflicts_pkey PRIMARY KEY (link, authority, origin);

ALTER TABLE ONLY console_sessions
    ADD CONSTRAINT console_sessions_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (subscription, number);

ALTER TABLE ONLY dead_letters
    ADD CONSTRAINT dead_letters_subscription_eventid_key UNIQUE (subscription, eventid);

ALTER TABLE ONLY delivery_attempts
    ADD CONSTRAINT delivery_attempts_pkey PRIMARY KEY (subscription, number);

ALTER TABLE ONLY delivery_leases
    ADD CONSTRAINT delivery_leases_pkey PRIMARY KEY (shard);

ALTER TABLE ONLY delivery_processes
    ADD CONSTRAINT delivery_processes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (xid);

ALTER TABLE ONLY doubted_copies
    ADD CONSTRAINT doubted_copies_pkey PRIMARY KEY (link, origin);

ALTER TABLE ONLY entities
    ADD CONSTRAINT entities_pkey PRIMARY KEY (xid);

ALTER TABLE ONLY followers
    ADD CONSTRAINT followers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY former_counts
    ADD CONSTRAINT former_counts_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY handover_copies
    ADD CONSTRAINT handover_copies_pkey PRIMARY KEY (handover, number);

ALTER TABLE ONLY handovers
    ADD CONSTRAINT handovers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY incarnations
    ADD CONSTRAINT incarnations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY key_histories
    ADD CONSTRAINT key_histories_pkey PRIMARY KEY (authority);

ALTER TABLE ONLY link_figures
    ADD CONSTRAINT link_figures_pkey PRIMARY KEY (link, step, at);

ALTER TABLE ONLY link_losses
    ADD CONSTRAINT link_losses_pkey PRIMARY KEY (link, authority, origin);

ALTER TABLE ONLY links
    ADD CONSTRAINT links_pkey PRIMARY KEY (id);

ALTER TABLE ONLY migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY node
    ADD CONSTRAINT node_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY peer_authorities
    ADD CONSTRAINT peer_authorities_pkey PRIMARY KEY (authority);

ALTER TABLE ONLY reconciliations
    ADD CONSTRAINT reconciliations_pkey PRIMARY KEY (run);

ALTER TABLE ONLY recovery_choices
    ADD CONSTRAINT recovery_choices_pkey PRIMARY KEY (origin);

ALTER TABLE ONLY recovery_copies
    ADD CONSTRAINT recovery_copies_pkey PRIMARY KEY (origin, source);

ALTER TABLE ONLY recovery
    ADD CONSTRAINT recovery_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY recovery_sources
    ADD CONSTRAINT recovery_sources_pkey PRIMARY KEY (number);

ALTER TABLE ONLY revisions
    ADD CONSTRAINT revisions_pkey PRIMARY KEY (xid, txid);

ALTER TABLE ONLY schemaids
    ADD CONSTRAINT schemaids_pkey PRIMARY KEY (xid);

ALTER TABLE ONLY search_index
    ADD CONSTRAINT search_index_pkey PRIMARY KEY (xid);

ALTER TABLE ONLY service_ids
    ADD CONSTRAINT service_ids_pkey PRIMARY KEY (authority, origin);

ALTER TABLE ONLY service_requests
    ADD CONSTRAINT service_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY set_members
    ADD CONSTRAINT set_members_pkey PRIMARY KEY (name, xid);

ALTER TABLE ONLY signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (subscription, id);

ALTER TABLE ONLY sink_consents
    ADD CONSTRAINT sink_consents_pkey PRIMARY KEY (subscription);

ALTER TABLE ONLY sink_credentials
    ADD CONSTRAINT sink_credentials_pkey PRIMARY KEY (subscription);

ALTER TABLE ONLY subscription_events
    ADD CONSTRAINT subscription_events_pkey PRIMARY KEY (txid, seq);

ALTER TABLE ONLY subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tombstones
    ADD CONSTRAINT tombstones_pkey PRIMARY KEY (authority, origin);

ALTER TABLE ONLY trusted_keys
    ADD CONSTRAINT trusted_keys_pkey PRIMARY KEY (authority, number, publickey);

ALTER TABLE ONLY written_entities
    ADD CONSTRAINT written_entities_pkey PRIMARY KEY (link, authority, origin);

CREATE INDEX access_paths_path ON access_paths USING btree (path, rule);

CREATE INDEX access_paths_pattern ON access_paths USING btree (rule) INCLUDE (pattern) WHERE (pattern IS NOT NULL);

CREATE UNIQUE INDEX access_requests_open ON access_requests USING btree (who, path, role) WHERE (state = 'open'::text);

CREATE INDEX access_requests_who ON access_requests USING btree (who);

CREATE INDEX audit_places ON audit USING gin (places);

CREATE INDEX audit_refused ON audit USING btree (txid, seq) WHERE (outcome = 'refused'::text);

CREATE INDEX changes_xid ON changes USING btree (xid, txid, seq);

CREATE INDEX console_sessions_use ON console_sessions USING btree (usedat);

CREATE INDEX dead_letters_at ON dead_letters USING btree (at);

CREATE INDEX dead_letters_state ON dead_letters USING btree (subscription, state, number);

CREATE INDEX dead_letters_subject ON dead_letters USING btree (subscription, subject, number) WHERE (state = 'dead'::text);

CREATE INDEX delivery_attempts_at ON delivery_attempts USING btree (at);

CREATE INDEX entities_bucket ON entities USING btree (bucket) INCLUDE (fingerprint);

CREATE INDEX entities_contexts ON entities USING btree (xid) WHERE ((kind = 'group'::text) AND (attributes ? 'confluent'::text));

CREATE INDEX entities_deprecated ON entities USING btree (xid) WHERE (attributes ? 'deprecated'::text);

CREATE INDEX entities_listing ON entities USING btree (listing, listing_id) WHERE (listing IS NOT NULL);

CREATE INDEX entities_modified ON entities USING btree (listing, modifiedat, listing_id) WHERE (listing IS NOT NULL);

CREATE INDEX entities_name ON entities USING btree (listing, search_name(attributes) COLLATE "C", listing_id) WHERE (listing IS NOT NULL);

CREATE UNIQUE INDEX entities_origin ON entities USING btree (authority, origin);

CREATE INDEX entities_schema_guid ON entities USING btree (((attributes #>> '{confluent,guid}'::text[]))) WHERE ((kind = 'version'::text) AND (attributes ? 'confluent'::text));

CREATE INDEX entities_schema_id ON entities USING btree (access_group(xid), ((attributes #> '{confluent,id}'::text[]))) WHERE ((kind = 'version'::text) AND (attributes ? 'confluent'::text));

CREATE INDEX entities_schema_references ON entities USING gin (((attributes #> '{confluent,references}'::text[])) jsonb_path_ops) WHERE ((kind = 'version'::text) AND (attributes ? 'confluent'::text));

CREATE INDEX entities_search ON entities USING gin (search_document(xid, id, attributes) jsonb_path_ops) WITH (gin_pending_list_limit='128') WHERE (kind <> 'resource'::text);

CREATE INDEX entities_service_names ON entities USING btree ("left"(fold_case((attributes ->> 'name'::text)), 256) COLLATE "C") WHERE ((collection = '/endpoints'::text) AND ((attributes -> 'usage'::text) ? 'subscriber'::text));

CREATE INDEX entities_services ON entities USING btree (lower(id)) WHERE ((collection = '/endpoints'::text) AND ((attributes -> 'usage'::text) ? 'subscriber'::text));

CREATE INDEX entities_short_key ON entities USING btree (short_key(xid)) WHERE (kind = ANY (ARRAY['group'::text, 'resource'::text]));

CREATE UNIQUE INDEX entities_sibling ON entities USING btree (collection, lower(id));

CREATE INDEX entities_tree ON entities USING btree (replace(lower(xid), '/'::text, '\x01'::text));

CREATE INDEX entities_without_schema_id ON entities USING btree (access_group(xid)) WHERE ((kind = 'version'::text) AND starts_with(xid, '/schemagroups/'::text) AND (NOT (attributes ? 'confluent'::text)) AND (document_sha256 IS NOT NULL));

CREATE INDEX entities_xref ON entities USING btree (collection, lower(id)) WHERE ((kind = 'resource'::text) AND (attributes ? 'xref'::text));

CREATE INDEX entities_xref_target ON entities USING btree (((attributes ->> 'xref'::text))) WHERE ((attributes ->> 'xref'::text) IS NOT NULL);

CREATE INDEX entities_xref_versions ON entities USING btree (((xid || '/versions'::text))) WHERE ((kind = 'resource'::text) AND (attributes ? 'xref'::text));

CREATE INDEX followers_use ON followers USING btree (seenat);

CREATE UNIQUE INDEX handovers_open ON handovers USING btree (lower(xid)) WHERE (endedat IS NULL);

CREATE INDEX incarnations_txid ON incarnations USING btree (txid);

CREATE UNIQUE INDEX links_accepted ON links USING btree (authority) WHERE ((definition ->> 'mode'::text) = 'accept'::text);

CREATE INDEX recovery_choices_wanted ON recovery_choices USING btree (rank, origin) WHERE (state = 'wanted'::text);

CREATE INDEX revisions_age ON revisions USING btree (txid) INCLUDE (size);

CREATE INDEX search_index_words ON search_index USING gin (((words || fields))) WITH (gin_pending_list_limit='128') WHERE is_listed;
ALTER INDEX search_index_words ALTER COLUMN 1 SET STATISTICS 0;

CREATE INDEX service_ids_id ON service_ids USING btree (id);

CREATE INDEX service_requests_at ON service_requests USING btree (at);

CREATE INDEX set_members_xid ON set_members USING btree (xid);

CREATE INDEX sink_consents_askat ON sink_consents USING btree (askat) WHERE (askat IS NOT NULL);

CREATE INDEX sink_credentials_expiresat ON sink_credentials USING btree (expiresat) WHERE ((type = 'ACCESSTOKEN'::text) AND (NOT iswarned));

CREATE INDEX sink_credentials_refreshat ON sink_credentials USING btree (refreshat) WHERE (refreshat IS NOT NULL);

CREATE INDEX subscriptions_createdby ON subscriptions USING btree (createdby, id) WHERE (createdby IS NOT NULL);

CREATE INDEX subscriptions_expiresat ON subscriptions USING btree (expiresat) WHERE (state = ANY (ARRAY['pending'::text, 'active'::text, 'paused'::text]));

CREATE INDEX tombstones_bucket ON tombstones USING btree (bucket);

CREATE INDEX written_entities_place ON written_entities USING btree (link, place);

CREATE TRIGGER links_counted AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION keep_link_counts();

CREATE TRIGGER subscriptions_counted AFTER DELETE ON subscriptions FOR EACH ROW EXECUTE FUNCTION keep_subscription_counts();

CREATE TRIGGER subscriptions_logged AFTER INSERT OR DELETE ON subscriptions FOR EACH ROW EXECUTE FUNCTION log_subscription();

CREATE TRIGGER subscriptions_update_logged AFTER UPDATE ON subscriptions FOR EACH ROW WHEN (((old.revision <> new.revision) OR (old.state <> new.state) OR ((old.failures = 0) <> (new.failures = 0)))) EXECUTE FUNCTION log_subscription();

ALTER TABLE ONLY access_paths
    ADD CONSTRAINT access_paths_rule_fkey FOREIGN KEY (rule) REFERENCES access_rules(id) ON DELETE CASCADE;

ALTER TABLE ONLY comparison_findings
    ADD CONSTRAINT comparison_findings_run_fkey FOREIGN KEY (run) REFERENCES reconciliations(run) ON DELETE CASCADE;

ALTER TABLE ONLY conflicts
    ADD CONSTRAINT conflicts_link_fkey FOREIGN KEY (link) REFERENCES links(id) ON DELETE CASCADE;

ALTER TABLE ONLY dead_letters
    ADD CONSTRAINT dead_letters_subscription_fkey FOREIGN KEY (subscription) REFERENCES subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY delivery_attempts
    ADD CONSTRAINT delivery_attempts_subscription_fkey FOREIGN KEY (subscription) REFERENCES subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY delivery_leases
    ADD CONSTRAINT delivery_leases_process_fkey FOREIGN KEY (process) REFERENCES delivery_processes(id) ON DELETE SET NULL;

ALTER TABLE ONLY documents
    ADD CONSTRAINT documents_xid_fkey FOREIGN KEY (xid) REFERENCES entities(xid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY doubted_copies
    ADD CONSTRAINT doubted_copies_link_fkey FOREIGN KEY (link) REFERENCES links(id) ON DELETE CASCADE;

ALTER TABLE ONLY handover_copies
    ADD CONSTRAINT handover_copies_handover_fkey FOREIGN KEY (handover) REFERENCES handovers(id) ON DELETE CASCADE;

ALTER TABLE ONLY link_figures
    ADD CONSTRAINT link_figures_link_fkey FOREIGN KEY (link) REFERENCES links(id) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY link_losses
    ADD CONSTRAINT link_losses_link_fkey FOREIGN KEY (link) REFERENCES links(id) ON DELETE CASCADE;

ALTER TABLE ONLY recovery_copies
    ADD CONSTRAINT recovery_copies_source_fkey FOREIGN KEY (source) REFERENCES recovery_sources(number) ON DELETE CASCADE;

ALTER TABLE ONLY search_index
    ADD CONSTRAINT search_index_xid_fkey FOREIGN KEY (xid) REFERENCES entities(xid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY set_members
    ADD CONSTRAINT set_members_xid_fkey FOREIGN KEY (xid) REFERENCES entities(xid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY signing_keys
    ADD CONSTRAINT signing_keys_subscription_fkey FOREIGN KEY (subscription) REFERENCES subscriptions(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY sink_consents
    ADD CONSTRAINT sink_consents_subscription_fkey FOREIGN KEY (subscription) REFERENCES subscriptions(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY sink_credentials
    ADD CONSTRAINT sink_credentials_subscription_fkey FOREIGN KEY (subscription) REFERENCES subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY written_entities
    ADD CONSTRAINT written_entities_link_fkey FOREIGN KEY (link) REFERENCES links(id) ON DELETE CASCADE;
