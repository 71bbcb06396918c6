SELECT
  time, host, interface, protocol, destination, destination_port,
  all_flows AS flows,
  rate AS responses_per_second,
  {quantile 0.5} AS latency_p50_ns,
  {quantile 0.9} AS latency_p90_ns,
  {quantile 0.99} AS latency_p99_ns,
  if(rate = 0, NULL, sure_rate / rate) AS sure,
  without AS epochs_without,
  longest AS waiting_ns,
  begins, counts
FROM (
  SELECT
    time, host, interface, protocol, destination, destination_port,
    all_flows, rate, sure_rate, without, longest,
    merged.1 AS begins, merged.2 AS counts, arrayCumSum(merged.2) AS passed
  FROM (
    SELECT
      time, host, interface, protocol, destination, destination_port,
      sum(flows) AS all_flows,
      sum(responses_per_second) AS rate,
      sum(sure * responses_per_second) AS sure_rate,
      sum(epochs_without) AS without,
      max(waiting_ns) AS longest,
      sumMap(latency_histogram.from_ns, latency_histogram.count) AS merged
    FROM {database}.response_aggregate FINAL
    WHERE destination IS NOT NULL
    GROUP BY time, host, interface, protocol, destination, destination_port
  )
)
