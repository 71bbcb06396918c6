SELECT
  host, interface, community_id, protocol, source, source_port, destination, destination_port,
  sum(bytes) AS bytes, sum(reverse_bytes) AS reverse_bytes,
  sum(packets) AS packets, sum(reverse_packets) AS reverse_packets,
  sum(loss_ratio * packets) / nullif(sum(CASE WHEN loss_ratio IS NOT NULL THEN packets END), 0)
    AS loss_ratio,
  sum(reverse_loss_ratio * reverse_packets)
    / nullif(sum(CASE WHEN reverse_loss_ratio IS NOT NULL THEN reverse_packets END), 0)
    AS reverse_loss_ratio,
  max(time) AS last_time
FROM traffic
WHERE time > $1 AND time <= $2 AND {chosen}
GROUP BY
  host, interface, community_id, protocol, source, source_port, destination, destination_port
