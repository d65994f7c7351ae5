-- Cross references are found by the meta entity that they show, which is their target's.

CREATE OR REPLACE VIEW borrowed AS
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
