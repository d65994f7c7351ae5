-- Cross references are found by what they refer to.
CREATE INDEX entities_xref_target ON entities ((attributes ->> 'xref'))
    WHERE attributes ->> 'xref' IS NOT NULL;
