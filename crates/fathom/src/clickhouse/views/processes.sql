SELECT
  host, community_id, protocol, source, source_port, destination, destination_port,
  role, pid, process, container, container_runtime, pod, systemd_unit,
  min(begin) AS first_time, max(end) AS last_time
FROM (
  SELECT *, ifNull(start_time, time) AS begin, time AS end
  FROM {database}.profile FINAL
  WHERE process IS NOT NULL
)
GROUP BY
  host, community_id, protocol, source, source_port, destination, destination_port,
  role, pid, process, container, container_runtime, pod, systemd_unit
