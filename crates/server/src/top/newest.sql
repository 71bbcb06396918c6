SELECT CAST(max(time) AS BIGINT) AS time_ns FROM (
  SELECT max(time) AS time FROM traffic WHERE time > $1
  UNION ALL SELECT max(time) FROM rtt_aggregate WHERE time > $1
  UNION ALL SELECT max(time) FROM response_aggregate WHERE time > $1
  UNION ALL SELECT max(time) FROM hop WHERE time > $1
  UNION ALL SELECT max(time) FROM profile WHERE time > $1
  UNION ALL SELECT max(time) FROM profile_dns WHERE time > $1
)
