SELECT
  host, interface, CAST(coalesce(total_rtt_mean_ns, srtt_ns) AS DOUBLE) AS value,
  destination AS remote,
  concat(protocol, '/', CASE $3 WHEN 'server' THEN source_port ELSE destination_port END) AS service
FROM profile
WHERE time >= $1 AND time < $2 AND role = $3 AND total_duration_ns IS NOT NULL
  AND coalesce(total_rtt_mean_ns, srtt_ns) IS NOT NULL
