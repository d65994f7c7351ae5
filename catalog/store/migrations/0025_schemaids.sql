-- Schemas by their id and GUID, and the next id of each group (catalog/dialects/confluent)
-- `instance` is the instance of the node that has given out the ids: another one was restored, and
-- does not know the ids that were given out after its backup.
CREATE TABLE schemaids (
    xid text COLLATE "C" PRIMARY KEY,
    instance uuid NOT NULL,
    next bigint NOT NULL CHECK (next > 0)
);

CREATE INDEX entities_schema_id ON entities
    (access_group(xid), (attributes #> '{confluent,id}'))
    WHERE kind = 'version' AND attributes ? 'confluent';

CREATE INDEX entities_schema_guid ON entities ((attributes #>> '{confluent,guid}'))
    WHERE kind = 'version' AND attributes ? 'confluent';

CREATE INDEX entities_schema_references ON entities
    USING gin ((attributes #> '{confluent,references}') jsonb_path_ops)
    WHERE kind = 'version' AND attributes ? 'confluent';

CREATE INDEX entities_without_schema_id ON entities (access_group(xid))
    WHERE kind = 'version' AND starts_with(xid, '/schemagroups/') AND NOT attributes ? 'confluent'
        AND document_sha256 IS NOT NULL;

CREATE INDEX entities_contexts ON entities (xid)
    WHERE kind = 'group' AND attributes ? 'confluent';
