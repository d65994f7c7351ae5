-- Finds groups and resources by a part of the hash of their xid, which their short URLs have.

-- An xid has no character that `escape` would read as anything else.
CREATE FUNCTION short_key(xid text)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(sha256(decode(xid, 'escape')) FROM 1 FOR 12);

CREATE INDEX entities_short_key ON entities (short_key(xid)) WHERE kind IN ('group', 'resource');
