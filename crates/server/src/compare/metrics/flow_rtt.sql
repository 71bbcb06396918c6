-- A flow that several interfaces see is one session, unless they are what is compared ($4).
SELECT
  r.host, min(r.interface) AS interface,
  sum(CAST(r.rtt_mean_ns AS DOUBLE) * r.rtt_samples) / sum(r.rtt_samples) AS value,
  r.destination AS remote, concat(r.protocol, '/', t.destination_port) AS service
FROM traffic t
JOIN rtt_aggregate r
  ON r.time = t.time AND r.host = t.host AND r.interface = t.interface
  AND r.community_id = t.community_id
WHERE t.time >= $1 AND t.time < $2 AND r.time >= $1 AND r.time < $2 AND r.rtt_samples > 0
  AND r.destination = CASE $3 WHEN 'server' THEN t.source ELSE t.destination END
  AND r.destination_port = CASE $3 WHEN 'server' THEN t.source_port ELSE t.destination_port END
GROUP BY
  r.host, r.community_id, r.protocol, r.destination, t.destination_port,
  CASE WHEN $4 THEN r.interface END
