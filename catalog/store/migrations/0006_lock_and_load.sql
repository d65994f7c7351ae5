-- Reads what an interaction touches through indexes only, and tells what else it has to read.

DROP FUNCTION lock_and_load(text[], text[], boolean, boolean, boolean, bigint);

-- Locks what an interaction will write and answers with the rows that it touches.
--
-- Advisory locks take no transaction id, so an interaction gets its id only when it holds
-- all of them: of two interactions on one entity, the later one has the higher id, and
-- the change log shows an entity's changes in the order in which they were made.
-- Everybody takes keys in ascending order, so no two wait for each other.
--
-- The catalog is always shared (or taken whole by bulk work and by whoever changes the
-- configuration). A group is exclusive where children come or go, the registry where groups
-- do; else a group is shared and each resource is exclusive. If what is missing changed
-- while waiting, SQLSTATE CC001 asks the caller to begin again with everything exclusive.
-- If the configuration is not of the revision that the caller expects (null: any), SQLSTATE
-- CC002 asks it to read the configuration anew and begin again.
--
-- `is_referred` says whether a cross reference may refer to any of the resources, `has_lived`
-- whether anything touched, or a version of a resource, may have been deleted before.
--
-- A few rows are read of tables that grow: a plan that was made while they were small, or
-- for the worst case, would scan them whole.
CREATE FUNCTION lock_and_load(
    group_xids text[],
    resource_xids text[],
    registry_exclusive boolean,
    groups_exclusive boolean,
    catalog_exclusive boolean,
    expected_revision bigint
) RETURNS TABLE (entity entities, is_referred boolean, has_lived boolean)
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
        SELECT e, is_referred, has_lived FROM entities e
        WHERE e.xid = ANY (group_xids || resource_xids || ARRAY['/'])
        UNION ALL
        SELECT e, is_referred, has_lived FROM entities e
        WHERE e.collection = ANY (ARRAY(SELECT r || '/versions' FROM unnest(resource_xids) AS r));
END
$$;
