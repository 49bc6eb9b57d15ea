"""What stages and their head take while nobody asks them for anything: as good as nothing beyond Ray's own part, which a
compiled graph of Ray's actors, half a core for each, would not."""

import os
import time

import ray

import qinfer.ray

SECONDS = 20


def cpu_seconds(pids):
    """User and system time of processes so far."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_idle_stages_take_no_more_than_idle_actors(cluster, stories):
    class Nothing:  # an actor that is there, and no more; in here, so that it is sent as a whole
        def where(self):
            return os.getpid()

    empty = [ray.remote(Nothing).options(num_cpus=0).remote() for _ in range(2)]
    empty_pids = ray.get([actor.where.remote() for actor in empty])
    with qinfer.ray.Pipeline(stories, cut=2, threads=1, cpus=0.25, context=128) as pipeline:
        session = pipeline.session(temperature=0.9, seed=1)
        session.append("Once upon a time")
        assert session.generate(10).text  # all threads and connections are there
        groups = {"stages": [one["pid"] for one in pipeline.placed.where()], "empty": empty_pids, "head": [os.getpid()]}
        time.sleep(2)
        begun, before = time.monotonic(), {name: cpu_seconds(pids) for name, pids in groups.items()}
        time.sleep(SECONDS)
        seconds = time.monotonic() - begun
        shares = {name: (cpu_seconds(pids) - before[name]) / seconds for name, pids in groups.items()}
        print("of a core:", ", ".join(f"{name} {100 * share:.2f} %" for name, share in shares.items()))
        assert shares["stages"] - shares["empty"] < 0.02
        session.close()
    begun, before = time.monotonic(), cpu_seconds([os.getpid()])
    time.sleep(SECONDS)
    without = (cpu_seconds([os.getpid()]) - before) / (time.monotonic() - begun)
    print(f"of a core: the process of the head without a pipeline {100 * without:.2f} %")
    assert shares["head"] - without < 0.02
    for actor in empty:
        ray.kill(actor)
