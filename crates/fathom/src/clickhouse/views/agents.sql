SELECT last AS time, host, version, measurements, interfaces, interval_ns, labels
FROM (
  SELECT
    host, max(told) AS last,
    argMax(own_version, told) AS version,
    argMax(own_measurements, told) AS measurements,
    argMax(own_interfaces, told) AS interfaces,
    argMax(own_interval_ns, told) AS interval_ns,
    argMax(own_labels, told) AS labels
  FROM (
    SELECT
      host, time AS told, version AS own_version, measurements AS own_measurements,
      interfaces AS own_interfaces, interval_ns AS own_interval_ns, labels AS own_labels
    FROM {database}.agent FINAL
  )
  GROUP BY host
)
