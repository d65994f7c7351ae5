-- Former contents of entities, the authors of copies, and an index of the paths in the audit

-- A row has the content of an entity until a transaction replaced or deleted it. `epoch` is the last
-- one with this content. `document` is null if that transaction left the document as it was: then a
-- later row has it, or the table `documents`. A purged row has neither attributes nor a document.
CREATE TABLE revisions (
    xid text COLLATE "C" NOT NULL,
    txid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    epoch bigint NOT NULL,
    attributes jsonb,
    createdat timestamptz NOT NULL,
    modifiedat timestamptz NOT NULL,
    document_sha256 bytea,
    document bytea,
    size integer NOT NULL,
    PRIMARY KEY (xid, txid)
);

CREATE INDEX revisions_age ON revisions (txid) INCLUDE (size);

CREATE VIEW visible.revisions AS
SELECT * FROM public.revisions e
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
    )::text[]);

-- The last transaction whose replaced contents may be missing. Null while no contents are kept.
ALTER TABLE node ADD COLUMN revisionsafter bigint DEFAULT 0;
UPDATE node SET revisionsafter = pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

CREATE INDEX changes_xid ON changes (xid, txid, seq);

-- The author at the authority, as far as the authority publishes its authors.
ALTER TABLE changes ADD COLUMN author jsonb;
CREATE OR REPLACE VIEW visible.changes AS
SELECT * FROM public.changes e
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
    )::text[]);

-- Whether a change of an entity is more than the changes of its children, and of a default version.
CREATE FUNCTION is_own_change(kind text, action text, changed text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN action <> 'updated' OR CASE kind
        WHEN 'version' THEN true
        WHEN 'resource' THEN changed <@ ARRAY['meta.epoch', 'meta.modifiedat'] OR EXISTS (
            SELECT FROM unnest(changed) AS c (name)
            WHERE starts_with(name, 'meta.') AND name NOT IN ('meta.epoch', 'meta.modifiedat'))
        ELSE changed <@ ARRAY['epoch', 'modifiedat'] OR EXISTS (
            SELECT FROM unnest(changed) AS c (name)
            WHERE name NOT IN ('epoch', 'modifiedat') AND name || 'count' <> ALL (changed)
                AND (name NOT LIKE '%count' OR left(name, -5) <> ALL (changed)))
        END;

-- The groups and resources that an entry is about, as paths of two and of four segments.
ALTER TABLE audit ADD COLUMN places text[] COLLATE "C" NOT NULL DEFAULT '{}';
UPDATE audit SET places = ARRAY(
    SELECT DISTINCT array_to_string(parts[1:depth + 1], '/')
    FROM unnest(targets || path) AS t (target)
    CROSS JOIN string_to_array(t.target, '/') AS parts
    CROSS JOIN unnest(ARRAY[2, 4]) AS depth
    WHERE cardinality(parts) > depth
);
CREATE INDEX audit_places ON audit USING gin (places);
