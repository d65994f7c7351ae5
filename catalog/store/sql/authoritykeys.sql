-- name: load
-- The keys of this authority, the first one first.
SELECT * FROM authority_keys ORDER BY number

-- name: load_secret
-- The encrypted secret of one key; null if it was dropped.
SELECT sealed FROM authority_keys WHERE number = $1

-- name: add
-- Add a key.
INSERT INTO authority_keys (number, publickey, sealed, createdat, endorsement)
VALUES ($1, $2, $3, $4, $5)

-- name: retire
-- Let a key sign nothing more, and drop its secret; with a third argument, let nothing be valid
-- that it has signed.
UPDATE authority_keys
SET sealed = NULL, retiredat = coalesce(retiredat, $2), revokedat = coalesce(revokedat, $3)
WHERE number = $1

-- name: read_signing
-- The key that signs now, and up to where what was there before has been signed.
SELECT signingkey, signsafter FROM node

-- name: sign_by
-- Let a key sign what is written from now on; null for none.
UPDATE node SET signingkey = $1

-- name: sign_after
-- Note up to where what is there has been signed; null for all of it.
UPDATE node SET signsafter = $1

-- name: unsigned_entities
-- Entities of this authority after an xid without a signature, or with that of a key in $3. What is
-- locked is being written, and signed with that.
SELECT * FROM entities
WHERE authority = $1 AND xid > $2 AND kind <> 'registry'
    AND (signature IS NULL OR signedby = ANY ($3::text[]))
ORDER BY xid
LIMIT $4
FOR NO KEY UPDATE SKIP LOCKED

-- name: unsigned_tombstones
-- The same of tombstones, after an origin.
SELECT * FROM tombstones
WHERE authority = $1 AND origin > $2
    AND (signature IS NULL OR signedby = ANY ($3::text[]))
ORDER BY origin
LIMIT $4
FOR NO KEY UPDATE SKIP LOCKED
