"""What other engines read in the directory of a store: rows, samples of its histograms, and the last time, a line each."""

import sys

import duckdb
import polars

files = f"{sys.argv[1]}/*/*.parquet"
samples = "sum(list_sum(list_transform(wait_histogram, lambda bucket: bucket.count)))"
print(*duckdb.sql(f"SELECT count(*), {samples}, epoch_ns(max(time)) FROM '{files}'").fetchall()[0], sep="|")
rows = polars.scan_parquet(files)
counts = rows.select(polars.col("wait_histogram").explode().struct.field("count").sum())
when = rows.select(polars.col("time").max().dt.epoch("ns"))
print(rows.select(polars.len()).collect().item(), counts.collect().item(), when.collect().item(), sep="|")
