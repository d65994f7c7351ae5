-- The words by which a search finds groups and resources (catalog/indexing)
-- A row stands for a group, a version or a cross reference; `is_listed` is true if the row is shown
-- by a search: a version while it is the default one. `words` has the words of the metadata and the
-- terms of filters, `fields` the words of the document.
CREATE TABLE search_words (
    xid text COLLATE "C" PRIMARY KEY REFERENCES entities ON UPDATE CASCADE ON DELETE CASCADE,
    is_listed boolean NOT NULL,
    type text COLLATE "C" NOT NULL,
    authority text COLLATE "C" NOT NULL,
    format text COLLATE "C",
    words tsvector NOT NULL,
    fields tsvector NOT NULL
);

CREATE INDEX search_words_listed ON search_words USING gin ((words || fields)) WHERE is_listed;

CREATE VIEW visible.search_words AS
SELECT * FROM public.search_words e
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

-- Entities after this xid may lack their words, which the node adds in the background: all entities
-- of a catalog from before this migration. Null once every entity has its words.
ALTER TABLE node ADD COLUMN unindexedafter text COLLATE "C" DEFAULT '';
