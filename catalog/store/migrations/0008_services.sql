-- What the Discovery API needs: its ids, its order, and the requests that it answers later.

-- Which endpoint an id stands for that is derived from the endpoint's origin. The derivation
-- never changes, so neither does a row; each is written when the id is first looked for.
CREATE TABLE service_ids (
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (authority, origin)
);
CREATE INDEX service_ids_id ON service_ids (id);

-- Services are the endpoints that offer subscriptions, in the order of their ids.
CREATE INDEX entities_services ON entities (lower(id) COLLATE "C")
    WHERE collection = '/endpoints' AND attributes -> 'usage' ? 'subscriber';

-- Requests that were accepted to be processed later. Nobody works on a request beyond its
-- deadline: what is pending then was interrupted, and nothing of it was written.
CREATE TABLE service_requests (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    deadline timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'failed')),
    headers jsonb NOT NULL DEFAULT '{}',
    body bytea NOT NULL DEFAULT ''
);
CREATE INDEX service_requests_at ON service_requests (at);
