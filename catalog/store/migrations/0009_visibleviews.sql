-- What restricted clients see, in databases that were restored from a backup without it

-- Without these views, restricted clients would read the tables themselves.
CREATE SCHEMA IF NOT EXISTS visible;

DO $migration$
DECLARE
    path CONSTANT text := current_setting('search_path');
    relation text;
    definition text;
BEGIN
    IF to_regclass('visible.entities') IS NOT NULL THEN
        RETURN;
    END IF;
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
