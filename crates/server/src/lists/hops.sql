SELECT
  host, ttl, responder, max(responder_name) AS responder_name,
  count(DISTINCT community_id) AS flows,
  quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
  quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns,
  max(queue_ns) AS queue_ns,
  sum(probes_sent) AS probes_sent,
  CAST(sum(probes_lost) AS DOUBLE) / nullif(sum(probes_sent), 0) AS loss_ratio,
  max(silence) AS silence, max(marks) AS marks,
  max(time) AS last_time
FROM hop
WHERE time > $1 AND time <= $2 AND is_destination IS NOT TRUE
GROUP BY host, ttl, responder
