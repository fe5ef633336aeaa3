"""`aiayn train --nproc N`: torchrun's own launcher for the processes of one machine."""

import logging
import os
import signal
import sys
import uuid

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from aiayn.data.workers import count_cores
from aiayn.errors import Interrupted, ProcessKilled, Stopped
from aiayn.signals import survives_hangup

# How long a process that was told to stop may take to save.
SECONDS_TO_SAVE = 600


def launch(processes: int, arguments: list[str]) -> int:
    """Run this program in several processes; return 0, or the exit code of one that failed."""
    # The launcher's own log would bury the one sentence that says what is wrong.
    logging.disable(logging.ERROR)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SECONDS_TO_SAVE))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, count_cores() // processes)))
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    if survives_hangup() and hasattr(settings, "signals_to_handle"):
        # A launcher without the setting forwards SIGHUP all the same: the run saves and stops.
        settings.signals_to_handle = "SIGTERM,SIGINT,SIGQUIT"
    try:
        elastic_launch(settings, sys.executable)("-u", "-m", "aiayn", *arguments)
    except ChildFailedError as problem:
        codes = {rank: failure.exitcode for rank, failure in problem.failures.items()}
        for rank, code in codes.items():
            if code < 0:
                raise ProcessKilled(
                    f"process {rank} was ended by {signal.Signals(-code).name}",
                    fix="if memory ran out, lower batch.micro_tokens or --nproc; the same"
                    " command resumes from the last checkpoint",
                ) from None
        return max(codes.values()) or 1
    except SignalException as problem:
        kind = Interrupted if problem.sigval == signal.SIGINT else Stopped
        return kind.exit_code
    return 0
