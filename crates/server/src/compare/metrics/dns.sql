SELECT
  host, CAST(NULL AS VARCHAR) AS interface, CAST(latency_ns AS DOUBLE) AS value,
  destination AS remote, concat(protocol, '/', destination_port) AS service
FROM profile_dns
WHERE time >= $1 AND time < $2 AND latency_ns IS NOT NULL
