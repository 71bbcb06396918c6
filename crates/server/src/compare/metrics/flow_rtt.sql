-- `traffic` tells who opened a flow; of one that was met in the middle, ports tell which end is the
-- server. A flow that several interfaces see is one session, unless they are what is compared ($4).
SELECT
  r.host, min(r.interface) AS interface,
  sum(CAST(r.rtt_mean_ns AS DOUBLE) * r.rtt_samples) / sum(r.rtt_samples) AS value,
  r.destination AS remote, concat(r.protocol, '/', t.server_port) AS service
FROM (
  SELECT
    time, host, interface, community_id,
    CASE WHEN is_met THEN source ELSE destination END AS server,
    CASE WHEN is_met THEN source_port ELSE destination_port END AS server_port,
    CASE WHEN is_met THEN destination ELSE source END AS client,
    CASE WHEN is_met THEN destination_port ELSE source_port END AS client_port
  FROM (
    SELECT *, destination_port >= 32768 AND source_port < 32768 AS is_met FROM traffic
    WHERE time >= $1 AND time < $2)) t
JOIN rtt_aggregate r
  ON r.time = t.time AND r.host = t.host AND r.interface = t.interface
  AND r.community_id = t.community_id
WHERE r.time >= $1 AND r.time < $2 AND r.rtt_samples > 0
  AND r.destination = CASE $3 WHEN 'server' THEN t.client ELSE t.server END
  AND r.destination_port = CASE $3 WHEN 'server' THEN t.client_port ELSE t.server_port END
GROUP BY
  r.host, r.community_id, r.protocol, r.destination, t.server_port,
  CASE WHEN $4 THEN r.interface END
