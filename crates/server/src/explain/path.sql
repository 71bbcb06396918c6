SELECT
  community_id, source, source_port, destination, destination_port, ttl, responder,
  CAST(max(time) AS BIGINT) AS last_ns
FROM hop
WHERE time > $1 AND time <= $2 AND {subject} AND responder IS NOT NULL
  AND is_destination IS NOT TRUE
GROUP BY community_id, source, source_port, destination, destination_port, ttl, responder
ORDER BY community_id, ttl, last_ns
LIMIT 100000
