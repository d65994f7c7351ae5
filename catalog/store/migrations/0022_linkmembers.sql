-- Definitions of links without the members that links of their mode do not have

UPDATE links SET definition = (
    SELECT jsonb_object_agg(CASE key WHEN 'names' THEN 'map' ELSE key END, value)
    FROM jsonb_each(definition)
    WHERE key IN ('mode', 'scope', 'types') OR CASE definition ->> 'mode'
        WHEN 'pull' THEN key IN (
            'source', 'authorities', 'labels', 'prefix', 'names', 'map', 'addresses', 'trust')
        WHEN 'events' THEN key IN (
            'source', 'authorities', 'labels', 'prefix', 'names', 'map', 'addresses', 'trust',
            'eventtopic')
        WHEN 'accept' THEN key IN ('authorities', 'prefix', 'names', 'map', 'addresses')
        WHEN 'kafka' THEN key IN (
            'source', 'authorities', 'prefix', 'names', 'map', 'addresses', 'trust')
        WHEN 'walk' THEN key IN ('source', 'prefix', 'names', 'map', 'addresses', 'trust')
        WHEN 'write' THEN key IN ('target', 'authorities', 'dialect')
        ELSE key IN ('target', 'authorities')
    END
);
