"""embed_shards.py on a Ray cluster of four nodes on this machine; a worker and then a node are killed in the middle.

    make test-ray        (about a minute; installs requirements-ray.txt into BUILD/scale-out)
"""
from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import embed_shards  # noqa: E402
import test_scale_out  # noqa: E402

BIN = ""
SHARDS, ROWS = 24, 40


def wait_for(what, seconds: float = 120):
    end = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > end:
            raise TimeoutError("the cluster does nothing")
        time.sleep(0.02)
    return found


class OnRay(unittest.TestCase):
    def test_every_row_exactly_once(self):
        with tempfile.TemporaryDirectory() as folder:
            self.try_in(Path(folder))

    def try_in(self, folder: Path) -> None:
        source, target, starts = folder / "in", folder / "out", folder / "starts"
        source.mkdir()
        starts.mkdir()
        made = test_scale_out.make_shards(source, SHARDS, ROWS)
        # slower than real, so that there is a middle; says which worker runs it
        program = folder / "mra-embed"
        program.write_text(f"#!/bin/sh\nlast=; for last; do :; done\n[ \"$last\" = - ] && {{ : > {starts}/$$-$PPID; sleep 0.5; }}\n"
                           f"exec {BIN}/mra-embed \"$@\"\n")
        program.chmod(0o755)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        killed: list = []

        def kill() -> None:
            wait_for(lambda: len(test_scale_out.outputs(target)) >= 3)
            running = wait_for(lambda: [p for p in (p.name.split("-") for p in starts.iterdir()) if os.path.exists(f"/proc/{p[0]}")])
            os.kill(int(running[-1][1]), signal.SIGKILL)  # a worker with a shard in hand
            killed.append("worker")
            wait_for(lambda: len(test_scale_out.outputs(target)) >= 9)
            cluster.remove_node(nodes[-1], allow_graceful=False)
            killed.append("node")

        job = embed_shards.make_job(str(source), str(target), str(test_scale_out.MODEL), str(program), [], threads=1)
        shards = embed_shards.find_shards(source)
        progress = embed_shards.Progress(len(shards))
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        embed_shards.run_ray(job, shards, progress, "auto")
        killer.join(60)
        self.assertEqual(killed, ["worker", "node"])
        self.assertEqual((progress.done, progress.failed), (SHARDS, 0))
        test_scale_out.ScaleOut.check_all(type("Case", (unittest.TestCase,), {"target": target})(), made)
        manifest = embed_shards.write_manifest(job, shards)
        self.assertEqual((manifest["done"], manifest["rows"], manifest["failed"]), (SHARDS, SHARDS * ROWS, 0))
        n = len(list(starts.iterdir()))
        self.assertGreater(n, SHARDS)  # some shards were started more than once
        print(f"\n{SHARDS} shards, {manifest['rows']} rows, each exactly once; 1 of 4 nodes and a worker killed; shards started {n} times",
              file=sys.stderr)
        again = embed_shards.Progress(len(shards))
        embed_shards.run_ray(job, shards, again, "auto")
        self.assertEqual((again.done, again.rows), (SHARDS, 0))  # nothing computed
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    BIN = test_scale_out.BIN = sys.argv.pop(1)
    unittest.main()
