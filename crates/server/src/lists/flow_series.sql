WITH carried AS (
  SELECT
    {step} AS time,
    sum(bytes) AS bytes, sum(reverse_bytes) AS reverse_bytes,
    sum(packets) AS packets, sum(reverse_packets) AS reverse_packets,
    sum(loss_ratio * packets) / nullif(sum(CASE WHEN loss_ratio IS NOT NULL THEN packets END), 0)
      AS loss_ratio,
    sum(reverse_loss_ratio * reverse_packets)
      / nullif(sum(CASE WHEN reverse_loss_ratio IS NOT NULL THEN reverse_packets END), 0)
      AS reverse_loss_ratio
  FROM traffic
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4 AND interface = $5
  GROUP BY 1
), server AS (
  SELECT
    {step} AS time, min(rtt_min_ns) AS rtt_min_ns,
    quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
    quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4 AND interface = $5
    AND destination = $6 AND destination_port = $7
  GROUP BY 1
), client AS (
  SELECT
    {step} AS time,
    quantile(merge(rtt_histogram), 0.5) AS client_rtt_p50_ns,
    quantile(merge(rtt_histogram), 0.99) AS client_rtt_p99_ns
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4 AND interface = $5
    AND NOT (destination = $6 AND destination_port = $7)
  GROUP BY 1
), waited AS (
  SELECT
    {step} AS time,
    quantile(merge(latency_histogram), 0.5) AS latency_p50_ns,
    quantile(merge(latency_histogram), 0.99) AS latency_p99_ns,
    max(waiting_ns) AS waiting_ns
  FROM response_aggregate
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4 AND interface = $5
  GROUP BY 1
)
SELECT
  times.time, bytes, reverse_bytes, packets, reverse_packets, loss_ratio, reverse_loss_ratio,
  rtt_min_ns, rtt_p50_ns, rtt_p99_ns, client_rtt_p50_ns, client_rtt_p99_ns,
  latency_p50_ns, latency_p99_ns, waiting_ns
FROM (
  SELECT time FROM carried UNION SELECT time FROM server
  UNION SELECT time FROM client UNION SELECT time FROM waited
) times
LEFT JOIN carried ON carried.time = times.time
LEFT JOIN server ON server.time = times.time
LEFT JOIN client ON client.time = times.time
LEFT JOIN waited ON waited.time = times.time
ORDER BY times.time
