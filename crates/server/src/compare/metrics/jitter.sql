-- The stack begins with half of the first round trip, of which little is left after sixteen.
SELECT
  host, interface, CAST(jitter_ns AS DOUBLE) AS value,
  destination AS remote,
  concat(protocol, '/', CASE $3 WHEN 'server' THEN source_port ELSE destination_port END) AS service
FROM profile
WHERE time >= $1 AND time < $2 AND role = $3 AND total_duration_ns IS NOT NULL
  AND jitter_ns IS NOT NULL AND total_rtt_samples >= 16
