-- The order in which a subtree is read: everything below an entity comes right after it, and
-- siblings come by their ids without regard to case. No id contains a byte as low as 0x01.
CREATE INDEX entities_tree ON entities ((replace(lower(xid), '/', E'\x01') COLLATE "C"));
