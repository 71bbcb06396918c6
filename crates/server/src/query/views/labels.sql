SELECT host, split_part(label, '=', 1) AS name, regexp_replace(label, '^[^=]*=', '') AS value
FROM (SELECT host, unnest(string_to_array(labels, ',')) AS label FROM agents)
WHERE label <> ''
