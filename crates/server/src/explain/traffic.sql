SELECT
  CAST(time AS BIGINT) AS time_ns, community_id,
  source, source_port, destination, destination_port,
  packets + reverse_packets AS packets,
  coalesce(packets_lost_before, 0) + coalesce(packets_lost_after, 0) AS lost,
  coalesce(reverse_packets_lost_before, 0) + coalesce(reverse_packets_lost_after, 0)
    AS reverse_lost
FROM traffic
WHERE time > $1 AND time <= $2 AND {subject} AND community_id IS NOT NULL
  AND source_port IS NOT NULL AND destination_port IS NOT NULL
ORDER BY time
LIMIT 100000
