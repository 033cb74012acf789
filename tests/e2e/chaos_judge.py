"""What must hold in a disturbed run, at any time and at its end; read from files only, by rules of their own."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.ledger.ledger import Ledger
from components.storage.base import open_store
from tests.e2e.chaos_plan import SEED, STEPS
from tests.e2e.programs.chain import expected_loss


class Judge:
    """Collects what is wrong with the run in `home`. An empty list is the verdict one hopes for."""

    def __init__(self, home: Path) -> None:
        self.home, self.storage = home, home / "storage"
        self.root = self.storage / "checkpoints/chaos/v1"
        self.wrong: list[str] = []
        self._is_verified = False

    def say(self, text: str) -> None:
        if text not in self.wrong:
            self.wrong.append(text)

    def records(self) -> list[dict[str, Any]]:
        """The changes in the ledger, in order; a record is there complete or not at all."""
        changes = []
        for number, path in enumerate(sorted((self.root / "log").glob("[0-9]*.json")), start=1):
            try:
                record = json.loads(path.read_bytes())
            except ValueError:
                self.say(f"{path} is half-written")
                break
            if record["seq"] != number:
                self.say(f"{path} stands where {number} should")
            changes.append(record["change"])
        return changes

    # --- at any time

    def look(self) -> None:
        """What is not retired is there to the last byte, and of the verified ones there is always one."""
        standing = self._standing()
        broken = {name: fault for name, entry in standing.items() if (fault := self._fault(entry))}
        if broken:  # retired and deleted between the two looks?
            again = self._standing()
            for name, fault in broken.items():
                if name in again:
                    self.say(f"{name} is {again[name]['status']}, but {fault}")
            standing = again
        is_verified = any(entry["status"] == "verified" for entry in standing.values())
        if self._is_verified and not is_verified:
            self.say("no verified checkpoint is left")
        self._is_verified |= is_verified

    def _standing(self) -> dict[str, dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        for change in self.records():
            if change["kind"] == "commit":
                entries[change["checkpoint"]] = {**change, "status": "committed"}
            elif change["kind"] == "verified":
                entries[change["checkpoint"]]["status"] = "verified"
            elif change["kind"] == "quarantine":
                self.say(f"{change['checkpoint']} was quarantined: {change['reason']}")
            elif change["kind"] == "retire":
                for item in change["checkpoints"]:
                    entries.pop(item["checkpoint"], None)
        return entries

    def _fault(self, entry: dict[str, Any]) -> str:
        folder = self.storage / entry["folder"]
        try:
            data = (folder / "MANIFEST.json").read_bytes()
            if hashlib.sha256(data).hexdigest() != entry["manifest_sha256"]:
                return "its manifest differs"
            for file in json.loads(data)["files"]:
                if hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() != file["sha256"]:
                    return f"{file['path']} differs"
        except FileNotFoundError as error:
            return f"{error.filename} is missing"
        return ""

    # --- at the end

    def conclude(self) -> None:
        """The run says it succeeded."""
        self.look()
        self._judge_ledger()
        self._judge_losses()
        self._judge_events()
        self._judge_trace()
        self._judge_files()
        self._judge_logs()

    def _judge_ledger(self) -> None:
        state = Ledger(open_store(f"file://{self.storage}"), "chaos", "v1").state()  # raises when it does not fold
        newest = state.newest_first("verified")
        if not newest or newest[0].step != STEPS:
            self.say(f"the newest verified checkpoint is {newest[:1]}")
        if state.claim is not None:
            self.say(f"the claim was never released: {state.claim}")
        if len({entry.data_version for entry in state.checkpoints.values()}) > 1:
            self.say("the data version changed")
        self._judge_records()

    def _judge_records(self) -> None:
        """By the order of records: terms one after the other, no step back, nothing retired that was needed."""
        term, status, steps = 0, dict[str, str](), dict[str, int]()
        for change in self.records():
            verified = [steps[name] for name, what in status.items() if what == "verified"]
            match change["kind"]:
                case "begin":
                    term, source = change["term"], change.get("source")
                    if verified and (source is None or steps[source] < max(verified)):
                        self.say(f"term {term} began from {source}, though step {max(verified)} was verified")
                case "commit":
                    if change["term"] != term:
                        self.say(f"{change['checkpoint']} was committed in term {term}")
                    status[change["checkpoint"]], steps[change["checkpoint"]] = "committed", change["step"]
                case "verified" | "quarantine":
                    status[change["checkpoint"]] = change["kind"]
                case "retire":
                    for item in change["checkpoints"]:
                        name = item["checkpoint"]
                        if status.pop(name) == "committed" and steps[name] >= max(verified, default=0):
                            self.say(f"{name} was retired before it was verified")
                    if verified and "verified" not in status.values():
                        self.say("the last verified checkpoint was retired")

    def _judge_losses(self) -> None:
        seen: dict[int, float] = {}
        for path in (self.storage / "runs").glob("*/gang/g*/state.json"):
            for step in json.loads(path.read_bytes())["steps"]:
                if step["loss"] != expected_loss(SEED, step["step"]):
                    self.say(f"step {step['step']} has loss {step['loss']}, not {expected_loss(SEED, step['step'])}")
                seen[step["step"]] = step["loss"]
        if STEPS not in seen:
            self.say("the last step was never reported")

    def _judge_events(self) -> None:
        """No node starts again once it has succeeded, but for the exit handler."""
        done: set[str] = set()
        for event in _lines(next((self.home / "runs").glob("chaos-*/events.jsonl"))):
            node = event.get("node", "")
            if event["type"] == "attempt-ended" and event["phase"] == "Succeeded" and not node.startswith("onExit"):
                done.add(node)
            if event["type"] == "attempt-started" and node in done:
                self.say(f"{node} was run again after it had succeeded")

    def _judge_trace(self) -> None:
        for violation in _lines(self.home / "trace/violations"):
            self.say(violation["text"])
        ended = {line["rank"] for line in _lines(self.home / "trace/ends") if line["step"] == STEPS}
        if 0 not in ended:
            self.say("rank 0 never came to its end")

    def _judge_files(self) -> None:
        for path in self.storage.rglob("*"):
            if path.name.startswith(".tmp-"):
                self.say(f"unfinished file {path.relative_to(self.storage)}")
        for path in (self.storage / "runs").rglob("*.json"):
            json.loads(path.read_bytes())
        report = json.loads(next((self.storage / "runs").glob("*/report.json")).read_bytes())
        if report["state"] != "Succeeded":
            self.say(f"the report says {report['state']}")

    def _judge_logs(self) -> None:
        """Nobody met a bug of ours on the way."""
        for path in [*(self.home / "runs").rglob("*"), *(self.storage / "runs").rglob("*"), self.home / "terminal.log"]:
            if path.is_file() and path.suffix in (".log", ".out", ".jsonl", ".json"):
                text = path.read_text(errors="replace")
                for mark in ("Bug: ", "Traceback (most recent"):
                    if (at := text.find(mark)) >= 0:
                        self.say(f"{path.relative_to(self.home)}: {text[max(0, at - 200) : at + 1500]}")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)


def wait_while(look: Any, *, seconds: float) -> bool:
    """Whether `look` became false in time."""
    until = time.monotonic() + seconds
    while look():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
