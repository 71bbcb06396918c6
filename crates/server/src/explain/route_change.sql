SELECT CAST(time AS BIGINT) AS time_ns, community_id, change, ttl, old, new
FROM route_change
WHERE time > $1 AND time <= $2 AND {subject}
ORDER BY time
LIMIT 100000
