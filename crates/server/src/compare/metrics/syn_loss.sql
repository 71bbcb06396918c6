-- Until it is established, a connection sends nothing again but its SYN, or SYN-ACK. Where it did,
-- that has a profile of its own.
SELECT
  host, interface, CAST(end_state = 'ESTABLISHED' AND packets_retransmitted > 0 AS DOUBLE) AS value,
  destination AS remote,
  concat(protocol, '/', CASE $3 WHEN 'server' THEN source_port ELSE destination_port END) AS service
FROM profile
WHERE time >= $1 AND time < $2 AND role = $3
  AND start_state = 'NEW' AND (end_state = 'ESTABLISHED' OR establishment_ns IS NOT NULL)
