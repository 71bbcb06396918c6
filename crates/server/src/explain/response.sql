SELECT
  CAST(time AS BIGINT) AS time_ns, community_id,
  source, source_port, destination, destination_port,
  CAST(duration_ns AS BIGINT) AS duration_ns, latency_p50_ns AS p50_ns, think_ns,
  responses_per_second * duration_ns / 1e9 AS responses
FROM response_aggregate
WHERE time > $1 AND time <= $2 AND {subject} AND community_id IS NOT NULL
  AND source_port IS NOT NULL AND destination_port IS NOT NULL
ORDER BY time
LIMIT 100000
