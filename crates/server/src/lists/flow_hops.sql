SELECT
  ttl, responder, max(responder_name) AS responder_name,
  min(rtt_min_ns) AS rtt_min_ns,
  quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
  quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns,
  max(queue_ns) AS queue_ns,
  sum(probes_sent) AS probes_sent, sum(probes_lost) AS probes_lost,
  max(silence) AS silence, max(marks) AS marks
FROM hop
WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4
GROUP BY ttl, responder
ORDER BY ttl, probes_sent DESC
