"""Threads keep to a core each, and nothing else of the machine is bound with them."""
import json
import os

import pytest

from tests.commands import environment, run_script

SCRIPT = """
import json, os, subprocess, sys
from weights.threads import bind_threads, describe_threads
before = sorted(os.sched_getaffinity(0)), dict(os.environ)
bind_threads()
import torch
torch.ones(500, 500) @ torch.ones(500, 500)  # the other threads start here
look = "import os; print(sorted(os.sched_getaffinity(0)))"
child = json.loads(subprocess.run([sys.executable, "-c", look], capture_output=True).stdout)
alone = [t for t in os.listdir("/proc/self/task") if len(os.sched_getaffinity(int(t))) == 1]
print(json.dumps({"same": (sorted(os.sched_getaffinity(0)), dict(os.environ)) == before,
                  "child": child == before[0], "alone": len(alone), "n": len(before[0]),
                  "said": describe_threads(torch.get_num_threads())}))
"""
several_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one core, or a system that does not tell")


def start(**variables):
    """What a program finds that binds its threads, started with these variables."""
    variables = environment(**variables)
    for name in [name for name, value in variables.items() if name[:3] == "OMP" and not value]:
        del variables[name]
    done = run_script(SCRIPT, env=variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@several_cores
def test_as_many_threads_as_cores_keep_apart_and_what_a_program_starts_is_free():
    found = start(OMP_NUM_THREADS="", OMP_PROC_BIND="")
    assert found["same"] and found["child"]
    assert found["alone"] == found["n"] - 1  # all but the main one
    assert found["said"] == f"{found['n']} threads, a core each"


@several_cores
@pytest.mark.parametrize("variables", [
    {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": ""},  # several such programs would share a core
    {"OMP_NUM_THREADS": "", "OMP_PROC_BIND": "false"},
])
def test_nothing_is_bound_where_it_would_harm_or_the_user_said_otherwise(variables):
    found = start(**variables)
    assert found["same"] and found["child"] and found["alone"] == 0
    assert "core" not in found["said"]


@several_cores
def test_once_torch_is_there_nothing_is_claimed():
    script = "import torch\n" + SCRIPT
    variables = environment()
    del variables["OMP_PROC_BIND"]
    variables["OMP_NUM_THREADS"] = str(len(os.sched_getaffinity(0)))
    done = run_script(script, env=variables)
    found = json.loads(done.stdout)
    assert found["same"] and found["alone"] == 0 and "core" not in found["said"]
