SELECT
  seen.host, seen.measurements, seen.records, seen.first_time, seen.last_time,
  agents.version, agents.interfaces, agents.labels, agents.interval_ns
FROM (
  SELECT
    host, string_agg(kind, ', ' ORDER BY kind) AS measurements, sum(records) AS records,
    min(first_time) AS first_time, max(last_time) AS last_time
  FROM hosts
  GROUP BY host
) seen
LEFT JOIN agents ON agents.host = seen.host
