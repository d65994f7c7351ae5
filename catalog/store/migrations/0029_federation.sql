-- What other catalogs tell of themselves: the card of an authority, and the links that it shares
CREATE TABLE peer_authorities (
    authority text COLLATE "C" PRIMARY KEY,
    card jsonb,
    cardat timestamptz,
    links jsonb,
    linksat timestamptz,
    triedat timestamptz,
    error text
);

-- How far each follower has come: (txid, seq) is the last position in the log of the instance that it
-- has confirmed. A follower that asks for several selections has a row for each.
CREATE TABLE followers (
    id text COLLATE "C" PRIMARY KEY,
    authority text COLLATE "C" NOT NULL,
    identity text NOT NULL,
    card jsonb,
    selection jsonb NOT NULL,
    instance uuid NOT NULL,
    txid bigint NOT NULL,
    seq bigint NOT NULL,
    seenat timestamptz NOT NULL
);

CREATE INDEX followers_use ON followers (seenat);

-- Figures of links: a point a minute (`step` 60) for a day, a point an hour (3600) for 30 days.
-- `copies` and `errors` are counts since the link was made.
CREATE TABLE link_figures (
    link text NOT NULL REFERENCES links ON UPDATE CASCADE ON DELETE CASCADE,
    step integer NOT NULL,
    at timestamptz NOT NULL,
    lag real,
    copies bigint NOT NULL,
    errors bigint NOT NULL,
    PRIMARY KEY (link, step, at)
);

-- The copy that a link could not apply, as far as there is room: JSON in UTF-8
ALTER TABLE conflicts ADD COLUMN refused bytea;
