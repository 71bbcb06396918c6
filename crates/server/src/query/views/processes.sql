SELECT
  host, community_id, protocol, source, source_port, destination, destination_port,
  role, pid, process, container, container_runtime, pod, systemd_unit,
  min(coalesce(start_time, time)) AS first_time, max(time) AS last_time
FROM profile
WHERE process IS NOT NULL
GROUP BY
  host, community_id, protocol, source, source_port, destination, destination_port,
  role, pid, process, container, container_runtime, pod, systemd_unit
