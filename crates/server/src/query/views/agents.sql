SELECT
  max(time) AS time, host,
  last_value(version ORDER BY time) AS version,
  last_value(measurements ORDER BY time) AS measurements,
  last_value(interfaces ORDER BY time) AS interfaces,
  last_value(interval_ns ORDER BY time) AS interval_ns,
  last_value(labels ORDER BY time) AS labels
FROM agent
GROUP BY host
