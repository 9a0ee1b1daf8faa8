"""The example of Ray Train on a cluster of several nodes on this machine: a worker is killed, then a node.

`main` is a program of its own, in the folder of the data, where the job writes `ray` and `audit`.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

SECONDS = 300
"""So long may it take until so many checkpoints are there."""


def wait_for_checkpoints(number: int, seen: set[str]) -> None:
    """Wait until Ray knows of so many more checkpoints than were seen before: it goes on from no others."""
    known = Path("ray/job/checkpoint_manager_snapshot.json")
    before, end = len(seen), time.monotonic() + SECONDS
    while len(seen) < before + number:
        assert time.monotonic() < end, f"no {number} checkpoints in {SECONDS} seconds"
        if known.exists():
            seen.update(re.findall(r"checkpoint_[-\d_.]+", known.read_text()))
        time.sleep(0.02)


def workers_of(raylet: int) -> list[int]:
    """The processes of Ray Train's workers on the node of a raylet."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes()
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
            if parent == raylet and b"RayTrainWorker" in command:
                found.append(int(process.name))
    return found


def pid_of(node: object) -> int:
    """The process of a node's raylet."""
    return node.all_processes["raylet"][0].process.pid


def strike(cluster: Cluster) -> None:
    """Kill a worker, and later a node with all that runs there."""
    seen: set[str] = set()
    first, *_, last = sorted(cluster.worker_nodes, key=pid_of)
    wait_for_checkpoints(2, seen)
    (worker,) = workers_of(pid_of(first))
    os.kill(worker, signal.SIGKILL)
    print("killed: a worker", flush=True)
    wait_for_checkpoints(2, seen)
    workers = workers_of(pid_of(last))
    for worker in workers:  # first, as Ray leaves it to them to notice that their node is gone
        os.kill(worker, signal.SIGKILL)
    cluster.remove_node(last, allow_graceful=False)
    print("killed: a node and its", len(workers), "worker", flush=True)


def main(example: str) -> None:
    """Run an example of Ray Train, and end the process."""
    cluster = Cluster(
        initialize_head=True, connect=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(3):
        cluster.add_node(num_cpus=1)
    striker = threading.Thread(target=strike, args=(cluster,), daemon=True)
    striker.start()
    runpy.run_path(example, run_name="__main__")
    striker.join(0)
    assert not striker.is_alive(), "the job ended before the node was killed"
    print("done", flush=True)
    ray.shutdown()
    for node in cluster.list_all_nodes():
        node.kill_all_processes(check_alive=False, allow_graceful=False, wait=False)
    os._exit(0)
