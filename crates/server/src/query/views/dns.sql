SELECT
  time, host, process, container, pod, systemd_unit, destination AS resolver,
  query_name, query_type, response_code, reason, latency_ns, retries
FROM profile_dns
