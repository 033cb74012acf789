"""Starts the ranks of one node and answers for every process they leave: none outlives this one.

Runs in the user's environment: this file alone, standard library, python >= 3.8, Linux. `python guard.py --socket PATH`
connects to the agent that listens there and speaks JSON lines. In a pod the agent is in another container: then
`--in-pod SECONDS` says how long it is waited for, and this process ends with the exit code that the agent leaves in
`verdict.json` beside the socket, or with 92 when it left none. Agent to guard:

    {"type": "readings", "devices": [argv]}      measure this place; `devices` is run with a deadline of 10 s; in a pod
                                                 also memory, cores and `program` {argv, cwd, env}
    {"type": "start", "attempt": n, "ranks": [{"rank", "argv", "env", "cwd"}]}   env: added to ours, null removes
    {"type": "signal", "signal": "SIGTERM"}      to the ranks, not to their children
    {"type": "kill", "grace_seconds": s}         SIGTERM to the ranks, then SIGKILL to every descendant; with
                                                 `patience_seconds` the ranks may first end by themselves
    {"type": "usage"}                            CPU time of all descendants so far
    {"type": "exit"}                             kill everything and go

Guard to agent: hello, readings, started {attempt, ranks: [{rank, pid}]}, output {attempt, rank, stream, data (base64)},
exited {attempt, rank, at, exit_code | signal | error, ended_by_us}, killed {attempt}, usage {cpu_seconds}, and
terminated {signal} when SIGTERM reached this process, which otherwise ignores it: only the agent knows when work is
saved. When the socket closes, for whatever reason, everything is killed.

When the agent reads slowly, ranks block on their own output instead of filling our memory.

Long because it is copied alone into the user's container.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import ctypes
import json
import os
import platform
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PF_EXITING = 4  # in the flags of /proc/<pid>/stat
READ_BYTES = 65536
PAUSE_ABOVE_BYTES, RESUME_BELOW_BYTES = 1 << 20, 1 << 18
MAX_LINE_BYTES = 16 << 20
LAST_OUTPUT_BYTES = 1 << 20  # read after a rank's end even when the agent is slow; a pipe holds 64 KiB unless enlarged
CONNECT_SECONDS = 30.0
QUICK_ROUNDS = 10  # for processes that are replaced by their own children faster than /proc can be read
DEVICES_SECONDS = 10.0
PEER_LOST = 92
VERDICT, LAST_WORDS = "verdict.json", "/dev/termination-log"
CGROUPS = "/sys/fs/cgroup"
UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"
SHELLS = (b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"busybox")

libc = ctypes.CDLL(None, use_errno=True)


class Rank:
    """A started rank."""

    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number, self.process = number, process
        assert process.stdout
        assert process.stderr
        self.files = {"stdout": process.stdout, "stderr": process.stderr}
        self.pipes = {file.fileno(): stream for stream, file in self.files.items()}
        self.has_exited = self.ended_by_us = False


class Devices:
    """A running question to the driver, which may hang."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.deadline = process, time.monotonic() + DEVICES_SECONDS


class Guard:
    """One thread, one loop; nothing in it waits."""

    def __init__(self, link: socket.socket, *, in_pod: bool = False) -> None:
        self.link, self.selector, self.in_pod = link, selectors.DefaultSelector(), in_pod
        self.place: dict[str, Any] = {}
        self.incoming = b""
        self.outgoing: collections.deque[bytes] = collections.deque()
        self.outgoing_bytes = 0
        self.ranks: dict[int, Rank] = {}
        self.attempt, self.is_paused, self.is_over = 0, False, False
        self.end_at: float | None = None  # when ranks that may still end by themselves are told to
        self.kill_at: float | None = None
        self.grace_seconds = 0.0
        self.kill_pause, self.exit_when_killed = 0.0, False
        self.devices: Devices | None = None

    def run(self) -> None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        # Handlers that do nothing, instead of SIG_IGN: an ignored signal would stay ignored in the ranks.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.link.setblocking(False)
        self.selector.register(self.link, selectors.EVENT_READ, self.on_link)
        self.selector.register(wake_read, selectors.EVENT_READ, lambda _: self.on_signals(wake_read))
        self.send(
            type="hello", version=1, pid=os.getpid(), host=socket.gethostname(), python=platform.python_version(),
            variables=sorted(os.environ), cores=usable_cores(),
        )  # fmt: skip
        while not self.is_over:
            for key, events in self.selector.select(self.timeout()):
                key.data(events)
            self.tick()

    def timeout(self) -> float | None:
        moments = [self.devices.deadline] if self.devices else []
        moments += [moment for moment in (self.end_at, self.kill_at) if moment is not None]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def tick(self) -> None:
        if self.devices and time.monotonic() >= self.devices.deadline:
            send_signal(self.devices.process.pid, signal.SIGKILL)
            self.answer_readings(self.devices, None)
        if self.end_at is not None:
            self.end_round(self.end_at)
        if self.kill_at is not None:
            self.kill_round(self.kill_at)

    # --- the socket to the agent

    def send(self, **message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        self.outgoing.append(data)
        self.outgoing_bytes += len(data)
        self.flush()

    def flush(self) -> None:
        while self.outgoing:
            data = self.outgoing[0]
            try:
                sent = self.link.send(data)
            except BlockingIOError:
                break
            except OSError:  # the agent is gone, as reading will tell
                self.outgoing.clear()
                self.outgoing_bytes = 0
                break
            self.outgoing_bytes -= sent
            if sent == len(data):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = data[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outgoing else 0)
        with contextlib.suppress(KeyError):
            self.selector.modify(self.link, events, self.on_link)
        self.set_paused(self.outgoing_bytes > (RESUME_BELOW_BYTES if self.is_paused else PAUSE_ABOVE_BYTES))

    def set_paused(self, is_paused: bool) -> None:
        if is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        for rank in self.ranks.values():
            for descriptor in rank.pipes:
                if is_paused:
                    self.unwatch(descriptor)
                else:
                    self.watch(rank, descriptor)

    def on_link(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self.flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            data = self.link.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.incoming += data
        if not data or len(self.incoming) > MAX_LINE_BYTES:
            self.selector.unregister(self.link)
            self.leave()
            return
        *lines, self.incoming = self.incoming.split(b"\n")
        for line in lines:
            self.obey(json.loads(line))

    def obey(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "start":
            self.start(message)
        elif kind == "signal":
            self.signal_ranks(getattr(signal, message["signal"]))
        elif kind == "kill":
            self.kill(message["grace_seconds"], message.get("patience_seconds", 0.0))
        elif kind == "readings":
            if self.in_pod:
                self.place = {**free_memory(), "cores": usable_cores(), "program": look_up(message["program"])}
            self.take_readings(message["devices"])
        elif kind == "usage":
            self.send(type="usage", cpu_seconds=cpu_seconds())
        elif kind == "exit":
            self.leave()

    def leave(self) -> None:
        self.exit_when_killed = True
        self.kill(0.0)

    # --- ranks

    def start(self, message: dict[str, Any]) -> None:
        self.attempt, self.ranks = message["attempt"], {}
        for wanted in message["ranks"]:
            self.start_rank(wanted)
        started = [{"rank": rank.number, "pid": rank.process.pid} for rank in self.ranks.values()]
        self.send(type="started", attempt=self.attempt, ranks=started)

    def start_rank(self, wanted: dict[str, Any]) -> None:
        env = {key: value for key, value in {**os.environ, **wanted["env"]}.items() if value is not None}
        try:
            process = subprocess.Popen(
                wanted["argv"], env=env, cwd=wanted["cwd"] or None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, bufsize=0, start_new_session=True, preexec_fn=die_with(os.getpid()),
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            program, folder = wanted["argv"][0], wanted["cwd"] or os.getcwd()
            self.send_exit(wanted["rank"], time.time(), error=f"cannot start {program!r} in {folder}: {error}")
            return
        rank = self.ranks[wanted["rank"]] = Rank(wanted["rank"], process)
        for descriptor in rank.pipes:
            os.set_blocking(descriptor, False)
            if not self.is_paused:
                self.watch(rank, descriptor)

    def send_exit(self, number: int, at: float, **how: Any) -> None:
        self.send(type="exited", attempt=self.attempt, rank=number, at=at, **how)

    def watch(self, rank: Rank, descriptor: int) -> None:
        self.selector.register(descriptor, selectors.EVENT_READ, lambda _: self.relay(rank, descriptor))

    def unwatch(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError):
            self.selector.unregister(descriptor)

    def relay(self, rank: Rank, descriptor: int) -> int:
        """Pass on what the rank wrote. Returns how many bytes: 0 when there is nothing now, or never will be."""
        stream = rank.pipes.get(descriptor)
        if stream is None:
            return 0
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self.unwatch(descriptor)
            del rank.pipes[descriptor]
            rank.files[stream].close()
            return 0
        text = base64.b64encode(data).decode("ascii")
        self.send(type="output", attempt=self.attempt, rank=rank.number, stream=stream, data=text)
        return len(data)

    def drain(self, rank: Rank) -> None:
        for descriptor in list(rank.pipes):
            left = LAST_OUTPUT_BYTES
            while left > 0:
                count = self.relay(rank, descriptor)
                left = left - count if count else 0

    def on_signals(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in os.read(wake, 4096):
                self.send(type="terminated", signal="SIGTERM")
        self.reap()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            at = time.time()
            if self.devices and pid == self.devices.process.pid:
                self.answer_readings(self.devices, exit_code_of(status))
            for rank in self.ranks.values():
                if rank.process.pid == pid and not rank.has_exited:
                    self.on_exit(rank, status, at)

    def on_exit(self, rank: Rank, status: int, at: float) -> None:
        rank.has_exited = True
        rank.process.returncode = exit_code_of(status)  # reaped here: Popen must not look again
        self.drain(rank)
        if os.WIFSIGNALED(status):
            self.send_exit(rank.number, at, signal=signal_name(os.WTERMSIG(status)), ended_by_us=rank.ended_by_us)
        else:
            self.send_exit(rank.number, at, exit_code=os.WEXITSTATUS(status), ended_by_us=rank.ended_by_us)

    def signal_ranks(self, number: int) -> None:
        table = process_table()
        for rank in self.ranks.values():
            if not rank.has_exited and not is_exiting(rank.process.pid):
                rank.ended_by_us = True
                for pid in behind_shells(rank.process.pid, table):
                    send_signal(pid, number)

    def kill(self, grace_seconds: float, patience_seconds: float = 0.0) -> None:
        self.reap()  # what ended before this was not our doing
        self.grace_seconds, self.end_at = grace_seconds, time.monotonic() + patience_seconds
        self.end_round(self.end_at)

    def end_round(self, end_at: float) -> None:
        if time.monotonic() < end_at and not all(rank.has_exited for rank in self.ranks.values()):
            return
        self.end_at = None
        self.signal_ranks(signal.SIGTERM)
        self.kill_at, self.kill_pause = time.monotonic() + self.grace_seconds, 0.005
        self.kill_round(self.kill_at)

    def kill_round(self, kill_at: float) -> None:
        self.reap()
        spared = self.devices.process.pid if self.devices else None
        living = [pid for pid in descendants(process_table()) if pid != spared] or overlooked(spared)
        if not living:
            self.reap()  # a rank that became a zombie since the last look
            self.on_killed()
        elif time.monotonic() >= kill_at:
            for _ in range(QUICK_ROUNDS):
                for pid in living:
                    send_signal(pid, signal.SIGKILL)
                living = overlooked(spared)
            self.kill_at = time.monotonic() + self.kill_pause
            self.kill_pause = min(2 * self.kill_pause, 0.25)  # a process stuck in the kernel may take its time

    def on_killed(self) -> None:
        self.kill_at = None
        for rank in self.ranks.values():
            self.drain(rank)
            for descriptor in rank.pipes:
                self.unwatch(descriptor)
            for file in rank.files.values():
                file.close()
        self.ranks = {}
        if self.exit_when_killed:
            self.is_over = True
        else:
            self.send(type="killed", attempt=self.attempt)

    # --- what this place offers

    def take_readings(self, argv: list[str]) -> None:
        program = shutil.which(argv[0]) if argv else None
        if program is None:
            self.send_readings({"is_there": False, "exit_code": None, "output": ""})
            return
        process = subprocess.Popen(
            [program, *argv[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            start_new_session=True, preexec_fn=die_with(os.getpid()),
        )  # fmt: skip
        self.devices = Devices(process)

    def answer_readings(self, devices: Devices, exit_code: int | None) -> None:
        self.devices, output = None, b""
        assert devices.process.stdout
        os.set_blocking(devices.process.stdout.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            output = os.read(devices.process.stdout.fileno(), READ_BYTES)  # a table of GPUs fits into a pipe
        devices.process.returncode = exit_code or 0
        devices.process.stdout.close()
        text = output.decode("utf-8", "replace")
        self.send_readings({"is_there": True, "exit_code": exit_code, "output": text})

    def send_readings(self, devices: dict[str, Any]) -> None:
        try:
            shm = os.statvfs("/dev/shm")
            shm_bytes: int | None = shm.f_bavail * shm.f_frsize
        except OSError:
            shm_bytes = None
        self.send(
            type="readings", devices=devices, visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
            shm_bytes=shm_bytes, open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0], **self.place,
        )  # fmt: skip


def usable_cores() -> float:
    """Our affinity, cut down by the quota of the container."""
    cores = float(len(os.sched_getaffinity(0)))
    words = read_text("cpu.max").split() or [read_text(f"cpu/cpu.cfs_{name}_us") for name in ("quota", "period")]
    return min(cores, int(words[0]) / int(words[1])) if all(word.isdigit() for word in words) else cores


def free_memory() -> dict[str, Any]:
    """What the container may still use. Unused file cache is given back before anything is killed, so it is free."""
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    free = {"memory_available_bytes": available, "memory_origin": "MemAvailable"}
    for limit, usage, statistics, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        most, used = read_text(limit), read_text(usage)
        if most.isdigit() and used.isdigit() and int(most) < UNLIMITED:
            lines = [line.split() for line in read_text(statistics).splitlines()]
            room = int(most) - int(used) + sum(int(line[1]) for line in lines if line[0] == cache)
            if room < available:
                free = {
                    "memory_available_bytes": max(0, room), "memory_origin": f"container limit {most} bytes",
                    "memory_limit_bytes": int(most),
                }  # fmt: skip
    return free


def look_up(program: dict[str, Any]) -> dict[str, Any]:
    """Where the program is, as its ranks would find it, and what is wrong with it."""
    argv, cwd = program["argv"], program["cwd"] or os.getcwd()
    env = {**os.environ, **program["env"]}
    if not os.path.isdir(cwd):
        return {"path": None, "obstacle": f"the folder it would start in, {cwd}, does not exist"}
    name = argv[0] if argv else ""
    found = shutil.which(os.path.join(cwd, name) if "/" in name else name, path=env.get("PATH", os.defpath))
    if not name or found is None:
        where = f"in {cwd}" if "/" in name else f"in any folder of PATH ({env.get('PATH', os.defpath)})"
        return {"path": None, "obstacle": f"there is no executable {name!r} {where}"}
    return {"path": found, "obstacle": "", "script_missing": missing_script(argv, cwd)}


def missing_script(argv: list[str], cwd: str) -> str:
    """The script that an interpreter is asked to run, when it is not there."""
    if not os.path.basename(argv[0]).startswith(("python", "pypy", "torchrun", "accelerate")):
        return ""
    for word in argv[1:]:
        if word in ("-m", "-c", "--module"):
            return ""
        if word.endswith(".py") and not word.startswith("-"):
            path = os.path.join(cwd, word)
            return "" if os.path.isfile(path) else path
    return ""


def read_text(name: str) -> str:
    with contextlib.suppress(OSError), open(os.path.join(CGROUPS, name)) as file:
        return file.read().strip()
    return ""


# --- processes


def die_with(parent: int) -> Callable[[], None]:
    """For a child between fork and exec: end when the guard does."""

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return arrange


class Process:
    """One line of the process table; `fields` are those of /proc/<pid>/stat from the state on."""

    def __init__(self, pid: int, stat: bytes) -> None:
        end = stat.rindex(b")")
        self.pid, self.name, self.fields = pid, stat[stat.index(b"(") + 1 : end], stat[end + 2 :].split()
        self.parent = int(self.fields[1])

    def is_alive(self) -> bool:
        """A zombie counts while other threads of it still run."""
        if self.fields[0] not in (b"Z", b"X"):
            return True
        try:
            return len(os.listdir(f"/proc/{self.pid}/task")) > 1
        except OSError:
            return False


def is_exiting(pid: int) -> bool:
    """Whether it ends already, of its own: its sockets close, as its peers see, before it is dead."""
    flags = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
                flags.append(int(Process(pid, file.read()).fields[6]))
    return bool(flags) and all(flag & PF_EXITING for flag in flags)


def process_table() -> dict[int, Process]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open("/proc/" + name + "/stat", "rb") as file:
                table[int(name)] = Process(int(name), file.read())
    return table


def descendants(table: dict[int, Process]) -> list[int]:
    """Our living descendants."""
    children = collections.defaultdict(list)
    for process in table.values():
        children[process.parent].append(process)
    found, queue = [], [os.getpid()]
    while queue:
        for child in children[queue.pop()]:
            queue.append(child.pid)
            if child.is_alive():
                found.append(child.pid)
    return found


def children() -> set[int]:
    """Our own children, dead ones included; empty where the kernel does not list them."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open("/proc/self/task/" + task + "/children") as file:
            found.update(int(pid) for pid in file.read().split())
    return found


def overlooked(spared: int | None) -> list[int]:
    """Children that may live though the table, which takes its time, shows nobody: empty only when none does.

    Who exits hands its children over to us before it shows as dead. So when all of our children are dead, and
    afterwards we have no others, none was handed over meanwhile.
    """
    before = children()
    living = []
    for pid in before - {spared}:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if Process(pid, file.read()).is_alive():
                living.append(pid)
    return living or list(children() - before - {spared})


def behind_shells(pid: int, table: dict[int, Process]) -> Iterable[int]:
    """Whom a signal to a rank is meant for: a shell that waits for a program would die of it and leave the program."""
    children = [child.pid for child in table.values() if child.parent == pid]
    if pid in table and table[pid].name in SHELLS and children:
        return [target for child in children for target in behind_shells(child, table)]
    return [pid]


def cpu_seconds() -> float:
    table = process_table()
    ticks = sum(int(field) for pid in descendants(table) for field in table[pid].fields[11:15])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK") + used.ru_utime + used.ru_stime


def exit_code_of(status: int) -> int:
    """As `subprocess` counts: a signal is negative."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def connect(path: str, *, in_pod_seconds: float | None = None) -> socket.socket:
    """The agent's socket, which may appear a little later. Paths longer than a socket's 107 bytes work too.

    `in_pod_seconds`: how long a pod's agent is waited for; None: it is our parent.
    """
    seconds = CONNECT_SECONDS if in_pod_seconds is None else in_pod_seconds
    deadline, parent = time.monotonic() + seconds, os.getppid()
    while True:
        link, folder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), -1
        try:
            folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY)
            link.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            return link
        except OSError as error:
            link.close()
            if os.path.exists(verdict_of(path)):  # the agent of this pod could not even begin
                sys.exit(leave_pod(path))
            if time.monotonic() >= deadline or os.getppid() != parent:
                sys.exit(give_up(f"guard: no agent at {path}: {error}", is_in_pod=in_pod_seconds is not None))
        finally:
            if folder >= 0:
                os.close(folder)
        time.sleep(0.05)


def verdict_of(path: str) -> str:
    return os.path.join(os.path.dirname(path), VERDICT)


def give_up(words: str, *, is_in_pod: bool) -> str | int:
    """What to exit with: in a pod a code that tells, elsewhere the words."""
    if not is_in_pod:
        return words
    leave_words(words)
    return PEER_LOST


def leave_words(words: str) -> None:
    with contextlib.suppress(OSError), open(LAST_WORDS, "w") as log:
        log.write(words[:4000])


def leave_pod(path: str) -> int:
    """The agent's exit code, which is the pod's; its words become the container's termination message."""
    code, words = PEER_LOST, "the agent of this pod is gone without a verdict; the ranks are killed"
    with contextlib.suppress(OSError, ValueError, KeyError), open(verdict_of(path)) as file:
        verdict = json.load(file)
        code, words = int(verdict["exit_code"]), str(verdict["message"])
    leave_words(words)
    return code


def end_before_start(number: int, frame: object) -> None:
    """A pod that is told to go while its agent is still on the way."""
    sys.exit(PEER_LOST)


def main() -> None:
    if len(sys.argv) not in (3, 5) or sys.argv[1] != "--socket" or sys.argv[3:4] not in ([], ["--in-pod"]):
        sys.exit("usage: python guard.py --socket PATH [--in-pod SECONDS]")
    path = sys.argv[2]
    if len(sys.argv) == 3:
        Guard(connect(path)).run()
        return
    # As the first process of a container we get no signal that we do not handle.
    signal.signal(signal.SIGTERM, end_before_start)
    Guard(connect(path, in_pod_seconds=float(sys.argv[4])), in_pod=True).run()
    sys.exit(leave_pod(path))


if __name__ == "__main__":
    main()
