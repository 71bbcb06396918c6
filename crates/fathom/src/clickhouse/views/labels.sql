SELECT
  host,
  substring(label, 1, position(label, '=') - 1) AS name,
  substring(label, position(label, '=') + 1) AS value
FROM (
  SELECT host, arrayJoin(splitByChar(',', assumeNotNull(labels))) AS label
  FROM {database}.agents
)
WHERE label != ''
