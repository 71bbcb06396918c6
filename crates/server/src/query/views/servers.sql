SELECT
  time, host, interface, max(duration_ns) AS duration_ns, protocol, destination, destination_port,
  sum(flows) AS flows,
  sum(responses_per_second) AS responses_per_second,
  quantile(merge(latency_histogram), 0.5) AS latency_p50_ns,
  quantile(merge(latency_histogram), 0.9) AS latency_p90_ns,
  quantile(merge(latency_histogram), 0.99) AS latency_p99_ns,
  sum(sure * responses_per_second) / nullif(sum(responses_per_second), 0) AS sure,
  sum(epochs_without) AS epochs_without,
  max(waiting_ns) AS waiting_ns,
  merge(latency_histogram) AS latency_histogram
FROM response_aggregate
WHERE destination IS NOT NULL
GROUP BY time, host, interface, protocol, destination, destination_port
