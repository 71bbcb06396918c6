SELECT
  CAST(time AS BIGINT) AS time_ns, community_id,
  source, source_port, destination, destination_port,
  rtt_min_ns AS min_ns, rtt_p50_ns, rtt_samples
FROM rtt_aggregate
WHERE time > $1 AND time <= $2 AND {subject} AND community_id IS NOT NULL
  AND source_port IS NOT NULL AND destination_port IS NOT NULL
ORDER BY time
LIMIT 100000
