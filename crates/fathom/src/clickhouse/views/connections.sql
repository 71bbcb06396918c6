SELECT
  time, host, interface, community_id,
  protocol, source, source_port, destination, destination_port,
  role, process, container, container_runtime, pod, systemd_unit, cgroup, network_namespace,
  reason, start_time, total_duration_ns,
  total_establishment_ns AS establishment_ns, total_accept_queue_ns AS accept_queue_ns,
  total_bytes_sent, total_bytes_received, total_packets_lost, total_packets_retransmitted,
  total_rtt_mean_ns, total_stalls, total_stalled_ns
FROM {database}.profile FINAL
WHERE total_duration_ns IS NOT NULL
