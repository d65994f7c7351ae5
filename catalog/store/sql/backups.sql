-- name: describe
-- The identity of the catalog in this database, at the present time.
SELECT instance, authority, now() AS at FROM node

-- name: count
-- What the catalog has, with the fingerprint of all its entities.
SELECT (SELECT count(*) FROM entities) AS entities,
    (SELECT coalesce(bit_xor(fingerprint), 0) FROM entities) AS fingerprint,
    (SELECT count(*) FROM documents) AS documents,
    (SELECT count(*) FROM tombstones) AS tombstones,
    (SELECT count(*) FROM changes) AS changes,
    (SELECT count(*) FROM links) AS links,
    (SELECT count(*) FROM subscriptions) AS subscriptions,
    (SELECT count(*) FROM access_tokens) AS tokens

-- name: relations
-- How many tables and views the schema has that a catalog would be in, and whether one is a node's.
SELECT count(*) AS number, count(*) FILTER (WHERE relname IN ('node', 'migrations')) = 2 AS is_catalog
FROM pg_class WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'p', 'v', 'm', 'f')

-- name: users
-- How many connections of nodes this database has, apart from the one that asks.
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'concord' AND pid <> pg_backend_pid()

-- name: keep_nodes_out
-- Let nodes that start wait until the database is restored: they migrate it first.
SELECT pg_advisory_xact_lock(hashtextextended('concord migrations', 0))

-- name: clear
-- Drop all that a catalog is made of, whatever version made it.
DO $$
DECLARE
    found record;
BEGIN
    DROP SCHEMA IF EXISTS visible CASCADE;
    FOR found IN
        SELECT c.oid, c.relkind, c.relname FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')
        ORDER BY c.relkind = 'S', c.relkind <> 'v'
    LOOP
        -- What depends on another one may be gone with it.
        IF EXISTS (SELECT FROM pg_class c WHERE c.oid = found.oid) THEN
            EXECUTE format('DROP %s public.%I CASCADE',
                CASE found.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                found.relname);
        END IF;
    END LOOP;
    FOR found IN
        SELECT p.oid, p.oid::regprocedure AS signature FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p')
            AND NOT EXISTS (
                SELECT FROM pg_depend d
                WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
    LOOP
        IF EXISTS (SELECT FROM pg_proc p WHERE p.oid = found.oid) THEN
            EXECUTE format('DROP ROUTINE %s CASCADE', found.signature);
        END IF;
    END LOOP;
END
$$

-- name: tables
-- The tables of the catalog except that of migrations, each with its columns that are stored.
SELECT c.relname::text AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migrations'
    AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY c.relname ORDER BY c.relname

-- name: keep_tables
-- Let no migration change a table until the transaction ends.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', found.name);
    END LOOP;
END
$$

-- name: sequences
-- The sequences of the catalog that have given out a value, each with the last one.
SELECT sequencename::text AS name, last_value FROM pg_sequences
WHERE schemaname = 'public' AND last_value IS NOT NULL

-- name: place_sequences
-- Let sequences of the catalog, given by their names, go on from values.
SELECT setval(c.oid::regclass, placed.value)
FROM unnest($1::text[], $2::bigint[]) AS placed (name, value)
JOIN pg_class c ON c.relname = placed.name
    AND c.relnamespace = 'public'::regnamespace AND c.relkind = 'S'

-- name: set_aside
-- Empty all tables but that of migrations, and drop what rows would have to meet one by one, in
-- whatever order they come: foreign keys, triggers, and indexes that are no constraints.
DO $$
DECLARE
    found record;
BEGIN
    CREATE TEMPORARY TABLE set_aside ON COMMIT DROP AS
    SELECT 1 AS step, format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS away,
        format('ALTER TABLE %s ADD CONSTRAINT %I %s',
            conrelid::regclass, conname, pg_get_constraintdef(oid)) AS back
    FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 2, format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass), pg_get_triggerdef(t.oid)
    FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
    WHERE NOT tgisinternal AND c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 3, format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid);
    FOR found IN SELECT away FROM set_aside ORDER BY step LOOP
        EXECUTE found.away;
    END LOOP;
    FOR found IN
        SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'migrations'
    LOOP
        EXECUTE format('TRUNCATE %s', found.name);
    END LOOP;
END
$$

-- name: put_back
-- Make again what was set aside.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT back FROM set_aside ORDER BY step DESC LOOP
        EXECUTE found.back;
    END LOOP;
END
$$

-- name: expect
-- Say what `verify` has to find.
SELECT set_config('concord.contents', $1, true)

-- name: verify
-- Fail unless everything is here that the setting `concord.contents` of the session counts.
DO $$
DECLARE
    expected CONSTANT text := current_setting('concord.contents');
    found text;
BEGIN
    SELECT concat_ws(',', (SELECT count(*) FROM entities),
        (SELECT coalesce(bit_xor(fingerprint), 0) FROM entities),
        (SELECT count(*) FROM documents), (SELECT count(*) FROM tombstones),
        (SELECT count(*) FROM changes), (SELECT count(*) FROM links),
        (SELECT count(*) FROM subscriptions), (SELECT count(*) FROM access_tokens)) INTO found;
    IF found <> expected THEN
        RAISE EXCEPTION 'it has %, not %', found, expected;
    END IF;
END
$$

-- name: be_another
-- Be another instance, so that peers drop their cursors, in a database that is not known yet.
UPDATE node SET instance = gen_random_uuid(), home = NULL

-- name: forget_recovery
-- Forget what a recovery had noted that was under way in another past.
WITH choices AS (DELETE FROM recovery_choices), sources AS (DELETE FROM recovery_sources)
DELETE FROM recovery

-- name: await_recovery
-- Take no writes until the node has recovered, or an operator ends that.
WITH closed AS (UPDATE node SET gate = 'model')
INSERT INTO recovery (state, startedat) VALUES ('awaited', now())

-- name: take_writes
-- Take writes at once.
UPDATE node SET gate = 'open'

-- name: note_backup
-- Keep the time of the last backup.
UPDATE node SET backedupat = greatest(backedupat, $1)
