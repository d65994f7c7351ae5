-- Resources as a GET shows them, and a search index that is quick right after writes.

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

-- Whoever searches reads the list of pending entries whole, so it is kept short.
ALTER INDEX entities_search SET (gin_pending_list_limit = 128);
