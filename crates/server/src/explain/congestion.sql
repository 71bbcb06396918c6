SELECT
  CAST(time AS BIGINT) AS time_ns, community_id,
  destination, destination_port, ttl, near, far, direction, queue_ns
FROM congestion
WHERE time > $1 AND time <= $2 AND {subject}
ORDER BY time
LIMIT 100000
