-- What operators have allowed links to lose, which passes on to the catalogs behind a relay

-- For an authority, the digest of the last question that was answered: here, or at a relay that this
-- node has followed in it. `link` is the one that asked here, until it `is_followed`: the link has
-- caught up with its source.
CREATE TABLE allowances (
    authority text COLLATE "C" PRIMARY KEY,
    digest text NOT NULL,
    link text,
    is_followed boolean NOT NULL
);
