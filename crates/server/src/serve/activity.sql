WITH carried AS (
  SELECT
    {step} AS time,
    sum(bytes + reverse_bytes) AS bytes,
    sum(coalesce(loss_ratio * packets, 0) + coalesce(reverse_loss_ratio * reverse_packets, 0))
      / nullif(sum(
        CASE WHEN loss_ratio IS NOT NULL THEN packets ELSE 0 END
        + CASE WHEN reverse_loss_ratio IS NOT NULL THEN reverse_packets ELSE 0 END
      ), 0) AS loss_ratio,
    count(DISTINCT community_id) AS flows
  FROM traffic
  WHERE time > $1 AND time <= $2
  GROUP BY 1
), held AS (
  SELECT {step} AS time, sum(stalls) AS stalls, sum(stalled_ns) AS stalled_ns
  FROM profile
  WHERE time > $1 AND time <= $2
  GROUP BY 1
)
SELECT times.time, bytes, loss_ratio, flows, stalls, stalled_ns
FROM (SELECT time FROM carried UNION SELECT time FROM held) times
LEFT JOIN carried ON carried.time = times.time
LEFT JOIN held ON held.time = times.time
ORDER BY times.time
