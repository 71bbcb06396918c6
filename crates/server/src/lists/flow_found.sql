SELECT
  host, interface, protocol, source, source_port, destination, destination_port,
  min(time) AS first_time, max(time) AS last_time
FROM {table}
WHERE time > $1 AND time <= $2 AND community_id = $3 AND ($4 = '' OR host = $4)
GROUP BY host, interface, protocol, source, source_port, destination, destination_port
ORDER BY last_time DESC, count(*) DESC
LIMIT 1
