-- Single findings of comparisons (replication/recovery/comparisonreports.py), and requests for roles in
-- groups (catalog/access/requestedroles.py)
-- `compared` are the catalogs, each with its authority, its URL and the numbers of differences there.
ALTER TABLE reconciliations ADD COLUMN compared jsonb NOT NULL DEFAULT '[]';

-- `origin` is the path of the entity at its authority; `content` is the finding as JSON.
CREATE TABLE comparison_findings (
    run uuid NOT NULL REFERENCES reconciliations ON DELETE CASCADE,
    number integer NOT NULL CHECK (number >= 0),
    finding text COLLATE "C" NOT NULL,
    catalog text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    content jsonb NOT NULL,
    PRIMARY KEY (run, number)
);

-- A caller who asks for a role at the path of a group, in the order of `number`. `who` is the condition of
-- the rule that a grant makes, `name` the caller for those who decide; `rule` is the rule that was made.
CREATE TABLE access_requests (
    id text COLLATE "C" PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    who text COLLATE "C" NOT NULL,
    name text NOT NULL,
    role text NOT NULL CHECK (role IN ('reader', 'writer', 'replicator', 'admin')),
    path text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'granted', 'declined')),
    createdat timestamptz NOT NULL,
    decidedat timestamptz CHECK ((decidedat IS NULL) = (state = 'open')),
    decidedby text,
    note text,
    rule text
);

CREATE UNIQUE INDEX access_requests_open ON access_requests (who, path, role) WHERE state = 'open';
CREATE INDEX access_requests_who ON access_requests (who);
