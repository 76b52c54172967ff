#!/usr/bin/env python3
"""What embed_shards.py takes for many documents: a simulation of workers, reading, network, stragglers and machines that die.

    python3 docs/scripts/simulate_scale.py --documents 1e9 --tokens 200 --rate 10000 --machines 100

--rate is measured: tokens per second of one machine (mra-embed -v, or mra-bench model). A shard takes the time of its slowest part: reading
it over the machine's network link, reading it from the storage that all machines share, or computing; then its result is written the
same way. Machines differ by --spread (a normal distribution, in parts of the rate), some are --slow times slower, and each dies with
--death per hour: its shard is started again elsewhere. The same seed gives the same numbers.
"""
from __future__ import annotations

import argparse
import heapq
import random


def simulate(a: argparse.Namespace) -> dict:
    r = random.Random(a.seed)
    n_shards = max(1, round(a.documents / a.shard_rows))
    read, write = a.shard_rows * a.bytes_in, a.shard_rows * a.bytes_out
    compute = a.shard_rows * a.tokens / a.rate
    shared = a.storage * 1e9 / 8 / a.machines  # of a machine, while all of them read
    link = min(a.link * 1e9 / 8, shared)
    speeds = [max(0.2, r.gauss(1, a.spread)) / (a.slow if r.random() < a.slow_part else 1) for _ in range(a.machines)]
    free = [(0.0, i) for i in range(a.machines)]
    heapq.heapify(free)
    busy, lost, ends, todo = 0.0, 0, [], n_shards
    while todo:
        t, i = heapq.heappop(free)
        seconds = max(read / link, compute / speeds[i]) + write / link + a.overhead
        death = r.expovariate(a.death / 3600) if a.death else float("inf")
        if death < seconds:  # comes back a minute later; its shard is work again
            lost += 1
            heapq.heappush(free, (t + death + 60, i))
            continue
        todo -= 1
        busy += seconds
        ends.append(t + seconds)
        heapq.heappush(free, (t + seconds, i))
    parts = {"computing": compute, "reading": read / link, "writing": write / link, "starting": a.overhead}
    return {"shards": n_shards, "hours": max(ends) / 3600, "machine_hours": a.machines * max(ends) / 3600, "used": busy / (a.machines * max(ends)),
            "ideal_hours": a.documents * a.tokens / a.rate / a.machines / 3600, "lost": lost, "slowest part": max(parts, key=parts.get),
            **{k: f"{v:.1f} s per shard" for k, v in parts.items()}}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, what in (("documents", 1e9, ""), ("tokens", 200, "of a document"), ("rate", 10000, "tokens/s of a machine"),
                                ("machines", 100, ""), ("shard-rows", 100000, "documents of a shard"), ("bytes-in", 800, "of a document"),
                                ("bytes-out", 1540, "of its vector"), ("link", 10, "Gbit/s of a machine"), ("storage", 100, "Gbit/s of all"),
                                ("overhead", 2, "s per shard: process, model, sync"), ("spread", 0.1, ""), ("slow-part", 0.02, "of machines"),
                                ("slow", 3, "times"), ("death", 0.01, "per machine and hour"), ("price", 0.1, "of a machine and hour"),
                                ("seed", 1, "")):
        p.add_argument(f"--{name}", type=float, default=default, help=f"{what} (default {default:g})")
    a = p.parse_args()
    a.machines, a.seed = int(a.machines), int(a.seed)
    for key, value in simulate(a).items():
        print(f"{key:14} {value if isinstance(value, (str, int)) else f'{value:.2f}'}")
    print(f"{'price':14} {simulate(a)['machine_hours'] * a.price:.0f}")


if __name__ == "__main__":
    main()
