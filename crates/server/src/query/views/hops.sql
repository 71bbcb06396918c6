SELECT
  time, host, interface, duration_ns, community_id,
  protocol, source, source_port, destination, destination_port,
  ttl, responder, is_destination, responder_name, probes_sent, probes_lost, silence,
  rtt_min_ns, rtt_stdev_ns, rtt_p50_ns, rtt_p99_ns, queue_ns, marks
FROM hop
