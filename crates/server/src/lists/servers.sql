SELECT
  host, protocol, destination, destination_port,
  quantile(merge(latency_histogram), 0.5) AS latency_p50_ns,
  quantile(merge(latency_histogram), 0.9) AS latency_p90_ns,
  quantile(merge(latency_histogram), 0.99) AS latency_p99_ns,
  sum(responses_per_second * duration_ns) / 1e9 AS responses,
  count(DISTINCT community_id) AS flows,
  sum(sure * responses_per_second * duration_ns)
    / nullif(sum(responses_per_second * duration_ns), 0) AS sure,
  max(waiting_ns) AS waiting_ns,
  max(time) AS last_time
FROM response_aggregate
WHERE time > $1 AND time <= $2 AND destination IS NOT NULL
GROUP BY host, protocol, destination, destination_port
