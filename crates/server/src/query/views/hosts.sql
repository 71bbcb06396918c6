WITH observed AS (
  SELECT host, 'traffic' AS kind, time FROM traffic
  UNION ALL SELECT host, 'rtt', time FROM rtt_aggregate
  UNION ALL SELECT host, 'response', time FROM response_aggregate
  UNION ALL SELECT host, 'profile', time FROM profile
  UNION ALL SELECT host, 'dns', time FROM profile_dns
  UNION ALL SELECT host, 'hops', time FROM hop
)
SELECT host, kind, count(*) AS records, min(time) AS first_time, max(time) AS last_time
FROM observed
GROUP BY host, kind
