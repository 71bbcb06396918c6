SELECT
  carried.*,
  server.rtt_p50_ns, server.rtt_p99_ns,
  client.rtt_p50_ns AS client_rtt_p50_ns, client.rtt_p99_ns AS client_rtt_p99_ns,
  waited.latency_p50_ns, waited.latency_p99_ns
FROM ({carried}) carried
LEFT JOIN (
  SELECT
    host, interface, community_id, destination, destination_port,
    quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
    quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2 AND {chosen}
  GROUP BY host, interface, community_id, destination, destination_port
) server
  ON server.host = carried.host AND server.interface = carried.interface
  AND server.community_id = carried.community_id
  AND server.destination = carried.destination
  AND server.destination_port = carried.destination_port
LEFT JOIN (
  SELECT
    host, interface, community_id, destination, destination_port,
    quantile(merge(rtt_histogram), 0.5) AS rtt_p50_ns,
    quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2 AND {chosen}
  GROUP BY host, interface, community_id, destination, destination_port
) client
  ON client.host = carried.host AND client.interface = carried.interface
  AND client.community_id = carried.community_id
  AND client.destination = carried.source AND client.destination_port = carried.source_port
LEFT JOIN (
  SELECT
    host, interface, community_id,
    quantile(merge(latency_histogram), 0.5) AS latency_p50_ns,
    quantile(merge(latency_histogram), 0.99) AS latency_p99_ns
  FROM response_aggregate
  WHERE time > $1 AND time <= $2 AND {chosen}
  GROUP BY host, interface, community_id
) waited
  ON waited.host = carried.host AND waited.interface = carried.interface
  AND waited.community_id = carried.community_id
