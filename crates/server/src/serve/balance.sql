SELECT
  service, server,
  last_value(address ORDER BY time) AS address,
  last_value(share ORDER BY time) AS part,
  last_value(latency_ns ORDER BY time) AS latency_ns,
  last_value(state ORDER BY time) AS state,
  last_value(why ORDER BY time) AS why,
  max(time) AS last_time
FROM balance
WHERE time > $1 AND time <= $2 AND service IN (
  SELECT service FROM balance_service
  WHERE split_part(network, '/', 1) = $3 AND (port IS NULL OR port = $4)
)
GROUP BY service, server
ORDER BY service, server
