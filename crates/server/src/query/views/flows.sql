SELECT
  t.time, t.host, t.interface, t.duration_ns, t.community_id,
  t.protocol, t.source, t.source_port, t.destination, t.destination_port,
  t.packets, t.bytes, t.reverse_packets, t.reverse_bytes,
  t.packets_retransmitted, t.reverse_packets_retransmitted, t.loss_ratio, t.reverse_loss_ratio,
  towards_server.rtt_min_ns, towards_server.rtt_p50_ns, towards_server.rtt_p99_ns,
  towards_client.rtt_min_ns AS client_rtt_min_ns,
  towards_client.rtt_p50_ns AS client_rtt_p50_ns,
  towards_client.rtt_p99_ns AS client_rtt_p99_ns,
  r.latency_p50_ns, r.latency_p99_ns, r.sure, r.waiting_ns
FROM traffic t
LEFT JOIN rtt_aggregate towards_server
  ON towards_server.time = t.time AND towards_server.host = t.host
  AND towards_server.interface = t.interface AND towards_server.community_id = t.community_id
  AND towards_server.destination = t.destination
  AND towards_server.destination_port = t.destination_port
LEFT JOIN rtt_aggregate towards_client
  ON towards_client.time = t.time AND towards_client.host = t.host
  AND towards_client.interface = t.interface AND towards_client.community_id = t.community_id
  AND towards_client.destination = t.source AND towards_client.destination_port = t.source_port
LEFT JOIN response_aggregate r
  ON r.time = t.time AND r.host = t.host
  AND r.interface = t.interface AND r.community_id = t.community_id
