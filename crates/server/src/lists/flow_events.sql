SELECT time, kind, text FROM (
  SELECT
    time, 'profile' AS kind,
    concat_ws(
      ', ', reason,
      CASE WHEN stalls > 0 THEN concat(stalls, ' stalls') END,
      CASE WHEN packets_lost > 0 THEN concat(packets_lost, ' packets lost') END
    ) AS text
  FROM profile
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4
  UNION ALL
  SELECT
    time, 'congestion',
    concat('hop ', ttl, ' (', coalesce(far, '?'), ') adds ', round(queue_ns / 1e6, 1), ' ms, ', direction)
  FROM congestion
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4
  UNION ALL
  SELECT
    time, 'route',
    concat(change, ' at hop ', ttl, ': ', coalesce(old, '?'), ' to ', coalesce(new, '?'))
  FROM route_change
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4
  UNION ALL
  SELECT time, 'waiting', concat('unanswered for ', round(waiting_ns / 1e6), ' ms')
  FROM response_wait
  WHERE time > $1 AND time <= $2 AND community_id = $3 AND host = $4
)
ORDER BY time
LIMIT 500
