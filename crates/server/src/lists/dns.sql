SELECT
  host, query_name, query_type, destination AS resolver,
  count(*) AS queries,
  sum(CASE WHEN response_code IN ('NOERROR', 'NXDOMAIN') THEN 0 ELSE 1 END) AS failures,
  sum(retries) AS retries,
  CAST(approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ns) AS BIGINT UNSIGNED)
    AS latency_p50_ns,
  CAST(approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ns) AS BIGINT UNSIGNED)
    AS latency_p99_ns,
  max(latency_ns) AS latency_max_ns,
  max(process) AS process,
  max(time) AS last_time
FROM profile_dns
WHERE time > $1 AND time <= $2
GROUP BY host, query_name, query_type, destination
