-- A flow that several interfaces see is one session, unless they are what is compared ($4).
SELECT
  host, min(interface) AS interface,
  CAST(quantile(merge(latency_histogram), 0.5) AS DOUBLE) AS value,
  CASE $3 WHEN 'server' THEN source ELSE destination END AS remote,
  concat(protocol, '/', destination_port) AS service
FROM response_aggregate
WHERE time >= $1 AND time < $2 AND community_id IS NOT NULL AND latency_p50_ns IS NOT NULL
GROUP BY
  host, community_id, protocol, source, source_port, destination, destination_port,
  CASE WHEN $4 THEN interface END
