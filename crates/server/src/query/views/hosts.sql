SELECT
  host, 'traffic' AS kind, count(*) AS records, min(time) AS first_time, max(time) AS last_time
FROM traffic GROUP BY host
UNION ALL
SELECT host, 'rtt', count(*), min(time), max(time)
FROM rtt_aggregate GROUP BY host
UNION ALL
SELECT host, 'response', count(*), min(time), max(time)
FROM response_aggregate GROUP BY host
UNION ALL
SELECT host, 'profile', count(*), min(time), max(time)
FROM profile GROUP BY host
UNION ALL
SELECT host, 'dns', count(*), min(time), max(time)
FROM profile_dns GROUP BY host
UNION ALL
SELECT host, 'hops', count(*), min(time), max(time)
FROM hop GROUP BY host
