SELECT
  CAST(time AS BIGINT) AS time_ns, community_id, host, role, process,
  coalesce(is_existing, false) AS is_existing,
  source, source_port, destination, destination_port, start_state, duration_ns,
  establishment_ns, accept_queue_ns, window_limited_ns, busy_ns, stalls, stalled_ns,
  packets_lost, packets_retransmitted, syn_acks_retransmitted
FROM profile
WHERE time > $1 AND time <= $2 AND {subject}
ORDER BY time
LIMIT 100000
