"""What is measured where the ranks run, and judged elsewhere: the guard measures, the agent judges.

The guard lives in the user's environment with nothing but the standard library, so it sends plain values; a reading it
does not send is taken by the agent, which is right whenever both share a machine and an environment.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from components.checks.accelerators import SmiAnswer, ask_nvidia_smi
from components.checks.cores import usable_cores
from components.checks.limits import free_shm, max_open_files
from components.checks.memory import FreeMemory, free_memory
from components.checks.packages import installed_versions
from components.contracts.units import format_size


class DeviceReading(TypedDict):
    """Running nvidia-smi with the arguments of `accelerators.QUERY`."""

    is_there: bool
    exit_code: int | None
    """None: no answer within the deadline."""
    output: str


class ProgramReading(TypedDict, total=False):
    """Where the guard found the program."""

    path: str | None
    obstacle: str
    """Why it cannot be started; empty when it can."""
    script_missing: str
    """The script it is asked to run, when that is not there."""


class Readings(TypedDict, total=False):
    """Plain JSON values; every key may be missing."""

    devices: DeviceReading
    visible_devices: str | None
    """CUDA_VISIBLE_DEVICES, None when it is not set."""
    memory_available_bytes: int
    memory_origin: str
    """`MemAvailable` or the cgroup limit that is tighter."""
    memory_limit_bytes: int
    """That limit, where it is one of the container's."""
    cores: float
    shm_bytes: int | None
    """Free in /dev/shm; None when there is none."""
    open_files: int
    program: ProgramReading
    """Only in a pod: there the agent has other files than the program."""
    packages: dict[str, str] | None
    """Version of each installed distribution of `packages.WANTED`; None when the program is not Python."""


class Machine:
    """Readings, each taken here when the guard did not send it."""

    def __init__(self, readings: Readings, *, command: Sequence[str], workdir: Path, env: Mapping[str, str]) -> None:
        self._readings, self._command, self._workdir, self._env = readings, command, workdir, env

    def devices(self) -> SmiAnswer:
        sent = self._readings.get("devices")
        return SmiAnswer(**sent) if sent is not None else ask_nvidia_smi(self._env)

    def visible_devices(self) -> str | None:
        if "visible_devices" in self._readings:
            return self._readings["visible_devices"]
        return self._env.get("CUDA_VISIBLE_DEVICES")

    def memory(self) -> FreeMemory:
        sent = self._readings.get("memory_available_bytes")
        if sent is None:
            return free_memory()
        limit = self._readings.get("memory_limit_bytes")
        if limit is None:
            return FreeMemory(sent, self._readings.get("memory_origin", "told by the guard"))
        return FreeMemory(sent, f"container limit {format_size(limit)}", is_pods_own="program" in self._readings)

    def cores(self) -> float:
        sent = self._readings.get("cores")
        return sent if sent is not None else usable_cores()

    def shm_bytes(self) -> int | None:
        return self._readings["shm_bytes"] if "shm_bytes" in self._readings else free_shm()

    def open_files(self) -> int:
        sent = self._readings.get("open_files")
        return sent if sent is not None else max_open_files()

    def program(self) -> ProgramReading | None:
        """What the guard found, None when the agent sees the same files."""
        return self._readings.get("program")

    def packages(self) -> dict[str, str] | None:
        if "program" in self._readings and "packages" not in self._readings:
            return None  # another container's
        if "packages" in self._readings:
            return self._readings["packages"]
        return installed_versions(command=self._command, workdir=self._workdir, env=self._env)


def program_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment the program will find: ours, and over it what the run description sets."""
    return {**os.environ, **env}
