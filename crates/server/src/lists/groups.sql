SELECT
  carried.{key} AS name,
  count(DISTINCT carried.community_id) AS flows,
  sum(carried.bytes) AS bytes, sum(carried.reverse_bytes) AS reverse_bytes,
  quantile(merge(server.histogram), 0.5) AS rtt_p50_ns,
  quantile(merge(server.histogram), 0.99) AS rtt_p99_ns,
  quantile(merge(client.histogram), 0.5) AS client_rtt_p50_ns,
  quantile(merge(waited.histogram), 0.5) AS latency_p50_ns,
  quantile(merge(waited.histogram), 0.99) AS latency_p99_ns,
  sum(carried.loss_ratio * carried.packets)
    / nullif(sum(CASE WHEN carried.loss_ratio IS NOT NULL THEN carried.packets END), 0)
    AS loss_ratio,
  sum(carried.reverse_loss_ratio * carried.reverse_packets)
    / nullif(
      sum(CASE WHEN carried.reverse_loss_ratio IS NOT NULL THEN carried.reverse_packets END), 0
    ) AS reverse_loss_ratio,
  max(carried.last_time) AS last_time
FROM (
  SELECT
    carried.*,
    concat(
      carried.protocol, ' ',
      CASE
        WHEN strpos(carried.destination, ':') > 0 THEN concat('[', carried.destination, ']')
        ELSE carried.destination
      END,
      CASE WHEN carried.destination_port > 0 THEN concat(':', carried.destination_port) END
    ) AS server,
    coalesce(
      {network_name},
      prefix(carried.source, CASE WHEN strpos(carried.source, ':') > 0 THEN 48 ELSE 24 END)
    ) AS network,
    owner.process
  FROM ({carried}) carried
  LEFT JOIN (
    SELECT host, community_id, max(process) AS process
    FROM profile
    WHERE time > $1 - INTERVAL '10 minutes' AND time <= $2 AND process IS NOT NULL
    GROUP BY host, community_id
  ) owner
    ON owner.host = carried.host AND owner.community_id = carried.community_id
) carried
LEFT JOIN (
  SELECT
    host, interface, community_id, destination, destination_port,
    merge(rtt_histogram) AS histogram
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2
  GROUP BY host, interface, community_id, destination, destination_port
) server
  ON server.host = carried.host AND server.interface = carried.interface
  AND server.community_id = carried.community_id
  AND server.destination = carried.destination
  AND server.destination_port = carried.destination_port
LEFT JOIN (
  SELECT
    host, interface, community_id, destination, destination_port,
    merge(rtt_histogram) AS histogram
  FROM rtt_aggregate
  WHERE time > $1 AND time <= $2
  GROUP BY host, interface, community_id, destination, destination_port
) client
  ON client.host = carried.host AND client.interface = carried.interface
  AND client.community_id = carried.community_id
  AND client.destination = carried.source AND client.destination_port = carried.source_port
LEFT JOIN (
  SELECT host, interface, community_id, merge(latency_histogram) AS histogram
  FROM response_aggregate
  WHERE time > $1 AND time <= $2
  GROUP BY host, interface, community_id
) waited
  ON waited.host = carried.host AND waited.interface = carried.interface
  AND waited.community_id = carried.community_id
GROUP BY 1
