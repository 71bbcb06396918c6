"""Ask DuckDB for a view of a store, on its files: views.py VIEWS STORE MIB QUESTION. VIEWS has the SQL of fathom's own views.

`servers` uses functions of fathom's own, and is written anew with DuckDB's; all others are taken as they are. Prints the
seconds from the first statement to the answer, then its rows.
"""
import pathlib
import sys
import time

import duckdb

SERVERS = """
WITH buckets AS (
  SELECT time, host, interface, protocol, destination, destination_port, bucket.from_ns AS from_ns, sum(bucket.count) AS count
  FROM (SELECT *, unnest(latency_histogram) AS bucket FROM response_aggregate WHERE destination IS NOT NULL)
  GROUP BY ALL
), ranked AS (
  SELECT *,
    sum(count) OVER (PARTITION BY time, host, interface, protocol, destination, destination_port ORDER BY from_ns) AS upto,
    sum(count) OVER (PARTITION BY time, host, interface, protocol, destination, destination_port) AS total
  FROM buckets
), quantiles AS (
  SELECT time, host, interface, protocol, destination, destination_port,
    min(from_ns) FILTER (upto >= 0.5 * total) AS latency_p50_ns,
    min(from_ns) FILTER (upto >= 0.9 * total) AS latency_p90_ns,
    min(from_ns) FILTER (upto >= 0.99 * total) AS latency_p99_ns,
    list({'from_ns': from_ns, 'count': count} ORDER BY from_ns) AS latency_histogram
  FROM ranked GROUP BY ALL
), sums AS (
  SELECT time, host, interface, protocol, destination, destination_port,
    max(duration_ns) AS duration_ns, sum(flows) AS flows, sum(responses_per_second) AS responses_per_second,
    sum(sure * responses_per_second) / nullif(sum(responses_per_second), 0) AS sure,
    sum(epochs_without) AS epochs_without, max(waiting_ns) AS waiting_ns
  FROM response_aggregate WHERE destination IS NOT NULL GROUP BY ALL
)
SELECT * FROM sums JOIN quantiles USING (time, host, interface, protocol, destination, destination_port)
"""

# Of IPv4, and a network of 256 addresses.
PREFIX = "CREATE MACRO prefix(address, bits) AS regexp_replace(address, '[0-9]+$', '0/24')"
VIEWS = ["flows", "hops", "connections", "processes", "dns", "hosts"]
KINDS = ["traffic", "rtt_aggregate", "response_aggregate", "profile", "profile_dns", "hop"]

views, store, memory, question = sys.argv[1:]
begin = time.monotonic()
duckdb.sql(f"SET memory_limit = '{memory}MiB'")
duckdb.sql("SET TimeZone = 'UTC'")
duckdb.sql(PREFIX)
for kind in KINDS:
    duckdb.sql(f"CREATE VIEW {kind} AS SELECT * FROM '{store}/{kind}/*/*.parquet'")
duckdb.sql(f"CREATE VIEW servers AS {SERVERS}")
for name in VIEWS:
    duckdb.sql(f"CREATE VIEW {name} AS {(pathlib.Path(views) / name).with_suffix('.sql').read_text()}")
rows = duckdb.sql(question).fetchall()
print(time.monotonic() - begin)
for row in rows:
    print(*row, sep=",")
