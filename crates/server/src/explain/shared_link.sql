SELECT count(DISTINCT community_id) AS count, CAST(min(time) AS BIGINT) AS since_ns
FROM congestion
WHERE time > $1 AND time <= $2 AND far = {place} AND queue_ns > {least} AND NOT {subject}
