WITH server AS (
  SELECT DISTINCT destination, destination_port
  FROM response_aggregate
  WHERE time > $1 AND time <= $2 AND {subject}
)
SELECT
  CAST(o.time AS BIGINT) AS time_ns, o.source AS client,
  CAST(median(o.latency_p50_ns) AS DOUBLE) AS p50_ns
FROM (
  SELECT time, source, destination, destination_port, latency_p50_ns
  FROM response_aggregate
  WHERE time > $1 AND time <= $2 AND NOT {subject} AND latency_p50_ns IS NOT NULL
) o
JOIN server s ON s.destination = o.destination AND s.destination_port = o.destination_port
GROUP BY o.time, o.source
ORDER BY o.time
LIMIT 100000
