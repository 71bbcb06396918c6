SELECT
  {step} AS time,
  quantile(merge(histogram), 0.5) AS p50_ns,
  quantile(merge(histogram), 0.99) AS p99_ns,
  merge(histogram) AS histogram
FROM (
  SELECT time, {histogram} AS histogram, destination, destination_port
  FROM {table}
  WHERE time > $1 AND time <= $2
)
WHERE ($3 = '' OR destination = $3) AND ($4 = 0 OR destination_port = $4)
GROUP BY 1
ORDER BY 1
