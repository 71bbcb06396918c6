SELECT host, kind, count() AS records, min(time) AS first_time, max(time) AS last_time
FROM (
  SELECT host, 'traffic' AS kind, time FROM {database}.traffic FINAL
  UNION ALL SELECT host, 'rtt' AS kind, time FROM {database}.rtt_aggregate FINAL
  UNION ALL SELECT host, 'response' AS kind, time FROM {database}.response_aggregate FINAL
  UNION ALL SELECT host, 'profile' AS kind, time FROM {database}.profile FINAL
  UNION ALL SELECT host, 'dns' AS kind, time FROM {database}.profile_dns FINAL
  UNION ALL SELECT host, 'hops' AS kind, time FROM {database}.hop FINAL
)
GROUP BY host, kind
