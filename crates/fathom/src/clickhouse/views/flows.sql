SELECT
  time, host, interface, duration_ns, community_id,
  protocol, source, source_port, destination, destination_port,
  packets, bytes, reverse_packets, reverse_bytes,
  packets_retransmitted, reverse_packets_retransmitted, loss_ratio, reverse_loss_ratio,
  rtt_min_ns, rtt_p50_ns, rtt_p99_ns,
  client_rtt_min_ns, client_rtt_p50_ns, client_rtt_p99_ns,
  latency_p50_ns, latency_p99_ns, sure, waiting_ns
FROM (
  SELECT *
  FROM (
    SELECT *
    FROM (
      SELECT
        time, host, interface, duration_ns, community_id,
        protocol, source, source_port, destination, destination_port,
        packets, bytes, reverse_packets, reverse_bytes,
        packets_retransmitted, reverse_packets_retransmitted, loss_ratio, reverse_loss_ratio
      FROM {database}.traffic FINAL
    ) AS t
    GLOBAL ANY LEFT JOIN (
      SELECT
        time, host, interface, community_id, destination, destination_port,
        rtt_min_ns, rtt_p50_ns, rtt_p99_ns
      FROM {database}.rtt_aggregate FINAL
    ) AS s USING (time, host, interface, community_id, destination, destination_port)
  ) AS towards_server
  GLOBAL ANY LEFT JOIN (
    SELECT
      time, host, interface, community_id,
      destination AS source, destination_port AS source_port,
      rtt_min_ns AS client_rtt_min_ns, rtt_p50_ns AS client_rtt_p50_ns,
      rtt_p99_ns AS client_rtt_p99_ns
    FROM {database}.rtt_aggregate FINAL
  ) AS c USING (time, host, interface, community_id, source, source_port)
) AS towards_client
GLOBAL ANY LEFT JOIN (
  SELECT time, host, interface, community_id, latency_p50_ns, latency_p99_ns, sure, waiting_ns
  FROM {database}.response_aggregate FINAL
) AS r USING (time, host, interface, community_id)
