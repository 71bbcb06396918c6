SELECT
  host,
  prefix(destination, CASE WHEN strpos(destination, ':') > 0 THEN 48 ELSE 24 END) AS network,
  count(DISTINCT community_id) AS flows,
  sum(rtt_samples) AS rtt_samples,
  min(rtt_min_ns) AS rtt_min_ns,
  quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
  quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns,
  max(time) AS last_time
FROM rtt_aggregate
WHERE time > $1 AND time <= $2 AND destination IS NOT NULL
GROUP BY 1, 2
