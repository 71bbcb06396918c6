WITH asker AS (
  SELECT DISTINCT host, pid
  FROM profile
  WHERE time > $1 AND time <= $2 AND {subject} AND role = 'client' AND pid IS NOT NULL
)
SELECT
  CAST(d.time AS BIGINT) AS time_ns, d.destination AS resolver, d.query_name, d.response_code,
  coalesce(d.retries, 0) AS retries, d.end_state,
  coalesce(d.latency_ns, CAST(d.time AS BIGINT) - CAST(d.start_time AS BIGINT)) AS waited_ns
FROM profile_dns d JOIN asker ON asker.host = d.host AND asker.pid = d.pid
WHERE d.time > $1 AND d.time <= $2
ORDER BY d.time
LIMIT 100000
