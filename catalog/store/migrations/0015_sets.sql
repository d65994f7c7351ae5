-- Which entities the documents of a named set have, so that a later apply of the set can delete
-- those that its documents no longer have. What is deleted leaves its sets.

CREATE TABLE set_members (
    name text COLLATE "C" NOT NULL,
    xid text COLLATE "C" NOT NULL REFERENCES entities (xid) ON DELETE CASCADE,
    PRIMARY KEY (name, xid)
);
CREATE INDEX set_members_xid ON set_members (xid);
