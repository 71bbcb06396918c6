SELECT
  time AS last_time, host, community_id, process, pod, systemd_unit, protocol, role,
  source, source_port, destination, destination_port, reason,
  total_duration_ns AS duration_ns, total_establishment_ns AS establishment_ns,
  total_rtt_mean_ns AS rtt_mean_ns,
  total_bytes_sent AS bytes_sent, total_bytes_received AS bytes_received,
  total_packets_lost AS packets_lost, total_packets_retransmitted AS packets_retransmitted,
  total_stalls AS stalls, total_stalled_ns AS stalled_ns
FROM profile
WHERE time > $1 AND time <= $2 AND total_duration_ns IS NOT NULL
