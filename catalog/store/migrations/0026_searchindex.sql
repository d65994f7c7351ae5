-- The words and references by which groups and resources are found (catalog/indexing)
-- A row stands for a group, a version or a cross reference; `is_listed` is true if the row is shown
-- by a search: a version while it is the default one. `words` has the words, terms and
-- references of the metadata, `fields` the words and references of the document.
CREATE TABLE search_index (
    xid text COLLATE "C" PRIMARY KEY REFERENCES entities ON UPDATE CASCADE ON DELETE CASCADE,
    is_listed boolean NOT NULL,
    type text COLLATE "C" NOT NULL,
    authority text COLLATE "C" NOT NULL,
    format text COLLATE "C",
    words tsvector NOT NULL,
    fields tsvector NOT NULL
);

-- A search reads what is pending as a whole, and one write in many merges it.
CREATE INDEX search_index_words ON search_index USING gin ((words || fields))
    WITH (gin_pending_list_limit = 128) WHERE is_listed;

-- Statistics of words take seconds after a large write, and change no plan.
ALTER TABLE search_index ALTER COLUMN words SET STATISTICS 0, ALTER COLUMN fields SET STATISTICS 0;
ALTER INDEX search_index_words ALTER COLUMN 1 SET STATISTICS 0;

CREATE INDEX entities_deprecated ON entities (xid) WHERE attributes ? 'deprecated';

CREATE VIEW visible.search_index AS
SELECT * FROM public.search_index e
WHERE EXISTS (
        SELECT FROM access_paths
        WHERE rule = ANY ((SELECT current_setting('concord.rules')::text[])::text[])
            AND path = access_group(e.xid)
    )
    OR access_group(xid) LIKE ANY ((
        SELECT array_agg(pattern) FROM access_paths
        WHERE rule = ANY ((SELECT current_setting('concord.rules')::text[])::text[])
            AND pattern IS NOT NULL
    )::text[]);

-- Entities after this xid may be missing in the index: at first all entities of a catalog from before
-- this migration, which the node adds in the background. Null once every entity is there.
ALTER TABLE node ADD COLUMN unindexedafter text COLLATE "C" DEFAULT '';
