#!/usr/bin/env python3
"""Writes vectors.json: what SciPy, and definitions word by word, say of some samples.

Run with SciPy 1.17: python3 vectors.py > vectors.json
"""

import json
import math

import numpy
from scipy import stats

Z = stats.norm.ppf(0.975)


def dominance(first, second):
    """Cliff's delta and its interval, by all pairs (Feng and Cliff 2004, equations 6 and 11)."""
    m, n = len(first), len(second)
    pairs = numpy.sign(numpy.subtract.outer(numpy.array(first), numpy.array(second)))
    delta = pairs.mean()
    if abs(delta) == 1:
        smaller = min(m, n)
        bound = (smaller - Z**2) / (smaller + Z**2)
        return delta, *sorted([delta * bound, delta])
    rows = ((pairs.mean(axis=1) - delta) ** 2).sum()
    columns = ((pairs.mean(axis=0) - delta) ** 2).sum()
    cells = ((pairs - delta) ** 2).sum()
    variance = (n**2 * rows + m**2 * columns - cells) / (m * n * (m - 1) * (n - 1))
    variance = max(variance, (1 - delta**2) / (m * n - 1))
    middle = delta - delta**3
    half = Z * math.sqrt(variance) * math.sqrt((1 - delta**2) ** 2 + Z**2 * variance)
    scale = 1 - delta**2 + Z**2 * variance
    return delta, (middle - half) / scale, (middle + half) / scale


def ranks(name, first, second):
    test = stats.mannwhitneyu(
        first, second, alternative="two-sided", method="asymptotic", use_continuity=True
    )
    delta, low, high = dominance(first, second)
    return {
        "name": name,
        "first": list(map(float, first)),
        "second": list(map(float, second)),
        "p": test.pvalue,
        "delta": delta,
        "interval": [low, high],
        "quartiles": [float(part) for part in numpy.quantile(first, [0.25, 0.5, 0.75, 0.95])],
    }


def shares(lost, of, other_lost, other_of):
    table = [[lost, of - lost], [other_lost, other_of - other_lost]]

    def wilson(count, total):
        interval = stats.binomtest(count, total).proportion_ci(method="wilson")
        return interval.low, interval.high

    (low, high), (other_low, other_high) = wilson(lost, of), wilson(other_lost, other_of)
    share, other_share = lost / of, other_lost / other_of
    difference = share - other_share
    # Newcombe 1998, method 10.
    down = math.hypot(share - low, other_high - other_share)
    up = math.hypot(high - share, other_share - other_low)
    return {
        "counts": [lost, of, other_lost, other_of],
        "p": stats.fisher_exact(table).pvalue,
        "wilson": [low, high],
        "difference": difference,
        "interval": [difference - down, difference + up],
    }


def main():
    generator = numpy.random.default_rng(7)
    log_normal = lambda median, size: numpy.round(generator.lognormal(math.log(median), 0.4, size))
    cases = [
        ranks("alike", log_normal(1000, 30), log_normal(1000, 25)),
        ranks("shifted", log_normal(1000, 30), log_normal(1400, 40)),
        ranks("ties", generator.integers(0, 5, 40), generator.integers(1, 6, 20)),
        ranks("mostly zero", [0] * 30 + [5, 9], [0] * 20 + [1, 2, 3, 5, 8, 13, 21]),
        ranks("apart", range(10, 20), range(30, 45)),
        ranks("all the same", [3] * 10, [3] * 9),
        ranks("many", log_normal(3000, 200), log_normal(3150, 250)),
    ]
    tables = [(0, 40, 5, 38), (3, 500, 30, 510), (10, 10, 0, 12), (7, 70, 9, 90), (0, 50, 0, 60)]
    tables += [(812, 91_000, 655, 90_500)]
    json.dump({"ranks": cases, "shares": [shares(*table) for table in tables]}, fp := open(1, "w"))
    fp.write("\n")


main()
