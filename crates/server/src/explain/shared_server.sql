SELECT count(DISTINCT community_id) AS count, CAST(min(time) AS BIGINT) AS since_ns
FROM response_aggregate
WHERE time > $1 AND time <= $2 AND destination = {place} AND latency_p50_ns > {least}
  AND NOT {subject}
