"""What `why` answers, as a table: what was seen, then reason, whose move it is, and words people look for."""

import pytest

from components.contracts.checks import CheckStatus
from components.contracts.clock import parse_utc
from components.contracts.gang import CheckpointView, FailureKind, GenerationView
from components.contracts.lifecycle import RunState
from components.contracts.run_view import ClaimView
from components.diagnosis.diagnose import Actor, diagnose
from tests.runs import (
    RUN,
    a_check,
    a_check_report,
    a_checkpoint,
    a_failed_attempt,
    a_failure,
    a_gang,
    a_launch,
    a_node,
    a_stage_record,
    a_step,
    a_stop,
    a_view,
    an_attempt,
    an_engine,
    at,
)

NOW = parse_utc(at(60))


def failed(task, exit_code, *, reason="", message="", fix="", **documents):
    """A run that ended because `task` did, in the task's own words."""
    node = a_node(task, "Failed", exit_code=exit_code)
    record = a_stage_record(task, exit_code, reason=reason, message=message, fix=fix) if reason else None
    engine = an_engine(node.model_copy(update={"message": message}) if not reason else node, phase="Failed")
    return a_view(engine=engine, stages=(record,) if record else (), **documents)


def failed_gang(failure, exit_code=90, **gang):
    return failed(
        "launch", exit_code, reason="WorkerFailed", message="WorkerFailed: a rank failed",
        gangs=(a_gang(RunState.FAILED, attempts=(a_failed_attempt(failure),), restarts_used=3, **gang),),
    )  # fmt: skip


def launching(gang, **documents):
    engine = an_engine(a_node("shard-plan"), a_node("launch", "Running"), a_node("verify", "Pending"))
    return a_view(engine=engine, gangs=(gang,), **documents)


def ranks_say(*lines, **changes):
    return failed_gang(a_failure(last_lines=lines, **changes))


TABLE = [
    # Bad input and checks
    (
        "bad input names the fault",
        failed("shard-plan", 78, reason="CorpusMissing", message="CorpusMissing: /x does not exist; set shard.corpus",
               fix="set shard.corpus"),
        ("CorpusMissing", Actor.SUBMITTER, "/x does not exist", "set shard.corpus"),
    ),
    (
        "every failed check is named with what it measured",
        failed("preflight", 81, reason="Unfit", message="Unfit: 2 checks", checks=(
            a_check_report(a_check("free_space"), a_check("memory", remedy="use fewer ranks"),
                           a_check("gpu", CheckStatus.OK)),)),
        ("ChecksFailed", Actor.MACHINE, "2 hard checks failed: free_space, memory", "use fewer ranks"),
    ),
    (
        "an unknown hard check fails the run and is not called a stop",
        failed("preflight", 83, reason="Unknown", message="Unknown: x", checks=(
            a_check_report(a_check("ports", CheckStatus.UNKNOWN)),)),
        ("ChecksFailed", Actor.MACHINE, "the check ports failed", "free memory"),
    ),
    (
        "a check of the description is the submitter's to mend",
        failed("preflight", 78, reason="PreflightFailed", message="PreflightFailed: 1 check failed", checks=(
            a_check_report(a_check("program", measured="'pyton' is in no folder of PATH",
                                   remedy="correct launch.command")),)),
        ("ChecksFailed", Actor.SUBMITTER, "the check program failed (measured 'pyton' is in no folder of PATH",
         "correct launch.command, then submit again"),
    ),
    (
        "node checks inside the gang, after a rank had failed in the generation before",
        failed("launch", 93, reason="NodeUnfit", message="NodeUnfit: node 1 is unfit: memory fail",
               fix="have the machine looked at", gangs=(
                   a_gang(RunState.FAILED, attempts=(a_failed_attempt(a_failure()),)),
                   a_gang(RunState.FAILED, generation=1, attempts=()),)),
        ("NodeUnfit", Actor.MACHINE, "node 1 is unfit: memory fail", "have the machine looked at"),
    ),
    # Worker failures
    (
        "a worker's exit code and its exception",
        ranks_say("Traceback (most recent call last):", "ValueError: bad batch"),
        ("WorkerFailed", Actor.PROGRAM, "rank 1 exited with code 1: ValueError: bad batch (after 3 of 3 restarts)",
         "correct the program"),
    ),
    (
        "a worker that says nothing",
        ranks_say(exit_code=3),
        ("WorkerFailed", Actor.PROGRAM, "rank 1 exited with code 3", "look at the program's log"),
    ),
    (
        "an import error",
        ranks_say("  File \"t.py\"", "ModuleNotFoundError: No module named 'flash_attn'"),
        ("ImportFailed", Actor.PROGRAM, "No module named 'flash_attn'", "install the module"),
    ),
    (
        "SIGKILL that was not ours looks like the out-of-memory killer",
        failed_gang(a_failure(FailureKind.RANK_SIGNAL)),
        ("OutOfMemorySuspected", Actor.PROGRAM, "rank 1 was killed by SIGKILL, which Argosy did not send", "dmesg"),
    ),
    (
        "a segmentation fault",
        failed_gang(a_failure(FailureKind.RANK_SIGNAL, signal="SIGSEGV")),
        ("Crashed", Actor.PROGRAM, "rank 1 crashed (SIGSEGV)", "PYTHONFAULTHANDLER"),
    ),
    (
        "SIGBUS is shared memory",
        failed_gang(a_failure(FailureKind.RANK_SIGNAL, signal="SIGBUS")),
        ("SharedMemoryTooSmall", Actor.MACHINE, "/dev/shm is full", "data loader workers"),
    ),
    (
        "device memory",
        ranks_say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
        ("DeviceOutOfMemory", Actor.PROGRAM, "CUDA out of memory", "smaller"),
    ),
    (
        "host memory",
        ranks_say("RuntimeError: DefaultCPUAllocator: can't allocate memory: 10 GB"),
        ("OutOfMemory", Actor.PROGRAM, "out of memory", "fewer ranks"),
    ),
    (
        "disk full inside the program",
        ranks_say("OSError: [Errno 28] No space left on device: 'x'"),
        ("DiskFull", Actor.MACHINE, "No space left on device", "free space"),
    ),
    (
        "a port taken by the program",
        ranks_say("RuntimeError: [Errno 98] Address already in use"),
        ("PortTaken", Actor.PROGRAM, "Address already in use", "MASTER_PORT"),
    ),
    (
        "a rendezvous port taken at start",
        failed_gang(a_failure(FailureKind.PORT_TAKEN, message="port 29500 is in use")),
        ("PortTaken", Actor.MACHINE, "port 29500 is in use", "MASTER_PORT only"),
    ),
    (
        "a command that does not exist",
        failed_gang(a_failure(FailureKind.START_FAILED, node_rank=0, message="no such file: trian.py")),
        ("CommandNotFound", Actor.SUBMITTER, "no such file: trian.py", "correct launch.command"),
    ),
    (
        "a command the shell does not find",
        ranks_say("sh: 1: trian: not found", exit_code=127),
        ("CommandNotFound", Actor.SUBMITTER, "trian: not found", "correct launch.command"),
    ),
    (
        "wrong arguments",
        ranks_say("train.py: error: unrecognized arguments: --lrr", exit_code=2),
        ("BadArguments", Actor.SUBMITTER, "unrecognized arguments: --lrr", "launch.command"),
    ),
    (
        "a program that sees a loss that is not a number",
        ranks_say("RuntimeError: loss is nan at step 12"),
        ("NotFinite", Actor.PROGRAM, "loss is nan", "learning rate"),
    ),
    (
        "several attempts ended at the same step",
        failed("launch", 94, reason="NoProgress", message="NoProgress: x", gangs=(
            a_gang(RunState.FAILED, attempts=(a_failed_attempt(a_failure(last_lines=("KeyError: 'x'",))),)),)),
        ("NoProgress", Actor.PROGRAM, "ended at the same step (40): rank 1 exited with code 1: KeyError: 'x'",
         "correct the program"),
    ),
    # Gang failures
    (
        "a hang names the rank that is behind",
        failed_gang(a_failure(FailureKind.HANG, rank=1), 91),
        ("Hang", Actor.PROGRAM, "no rank made a step within 4m (rank 1 is behind)", "launch.limits.no_progress"),
    ),
    (
        "an agent is lost",
        failed_gang(a_failure(FailureKind.AGENT_LOST, node_rank=1, message="its connection closed"), 92),
        ("AgentLost", Actor.MACHINE, "the agent of node 1 is gone: its connection closed", "resume tiny-b2c4d"),
    ),
    (
        "a guard is lost",
        failed_gang(a_failure(FailureKind.GUARD_LOST, node_rank=0, message="killed by SIGKILL"), 92),
        ("GuardLost", Actor.MACHINE, "the guard of node 0 is gone", "dmesg"),
    ),
    (
        "the gang did not start in time",
        failed_gang(a_failure(FailureKind.START_DEADLINE, message="1 of 2 agents joined"), 83),
        ("StartDeadline", Actor.SUBMITTER, "did not start within 5m: 1 of 2 agents joined", "launch.limits.start"),
    ),
    (
        "the run deadline",
        failed_gang(a_failure(FailureKind.RUN_DEADLINE), 83),
        ("RunDeadline", Actor.SUBMITTER, "training used up its 1h", "launch.limits.run"),
    ),
    # Ledger, verification, storage
    (
        "another run holds the claim",
        failed("launch", 78, reason="RunActive", message="RunActive: run tiny-zzzzz is running",
               claim=ClaimView(run="tiny-zzzzz", owner="pid 9 on box", since=at(5))),
        ("RunActive", Actor.SUBMITTER, f"run tiny-zzzzz (pid 9 on box) has been training tiny v1 since {at(5)}",
         "wait for it or stop it"),
    ),
    (
        "another run held the claim and has ended since",
        failed("launch", 78, reason="RunActive", message="RunActive: run tiny-zzzzz (pid 9) is running; wait for it"),
        ("RunActive", Actor.SUBMITTER, "run tiny-zzzzz (pid 9) is running", "wait for it or stop it"),
    ),
    (
        "a checkpoint with NaN was quarantined",
        failed("verify", 96, reason="VerificationFailed", message="VerificationFailed: x", checkpoints=(
            a_checkpoint(60, "quarantined", reason="model.safetensors: wte.weight holds 3 NaN"), a_checkpoint(40))),
        ("NotFinite", Actor.PROGRAM, "step-60-term-1 was quarantined: model.safetensors: wte.weight holds 3 NaN",
         "step-40-term-1 is still verified"),
    ),
    (
        "a damaged checkpoint was quarantined",
        failed("verify", 96, reason="VerificationFailed", message="VerificationFailed: x", checkpoints=(
            a_checkpoint(60, "quarantined", reason="sha256 of model.safetensors differs"),)),
        ("VerificationFailed", Actor.MACHINE, "sha256 of model.safetensors differs", "look at the disk"),
    ),
    (
        "nothing was committed",
        failed("launch", 96, reason="NothingCommitted", message="NothingCommitted: x", gangs=(a_gang(),)),
        ("NothingCommitted", Actor.PROGRAM, "without a checkpoint that could be committed", "READY"),
    ),
    (
        "none of the checkpoints can be resumed from",
        failed("launch", 96, reason="NothingToResume", fix="choose a new model_version", gangs=(a_gang(),),
               message="NothingToResume: tiny/v1 has checkpoints, but all are damaged; choose a new model_version"),
        ("NothingToResume", Actor.PROGRAM, "has checkpoints, but all are damaged", "choose a new model_version"),
    ),
    (
        "a full disk under the storage",
        failed("shard-merge", 81, reason="StorageRefused",
               message="StorageRefused: cannot write /s/x: No space left on device; free space on that disk"),
        ("DiskFull", Actor.MACHINE, "No space left on device", "free space there"),
    ),
    (
        "a store that does not answer",
        failed("verify", 75, reason="StorageNotAnswering", message="StorageNotAnswering: /s: timed out; check it",
               fix="check it"),
        ("StorageNotAnswering", Actor.MACHINE, "verify: /s: timed out", "check it"),
    ),
    # Stages without words of their own
    (
        "our bug",
        failed("retain", 70, reason="Bug", message="Bug: KeyError: 'x'"),
        ("Bug", Actor.ARGOSY, "retain: KeyError: 'x'", "logs tiny-b2c4d --stage retain"),
    ),
    (
        "a stage killed from outside",
        failed("shard-task-1", 137, message="Error (exit code 137)"),
        ("Killed", Actor.MACHINE, "shard-task-1 was killed by SIGKILL from outside", "dmesg"),
    ),
    (
        "a stage past its deadline",
        failed("verify", 143, message="Pod was active on the node longer than the specified deadline"),
        ("StageDeadline", Actor.SUBMITTER, "verify did not end within its deadline", "verify.timeout"),
    ),
    (
        "a stage past its deadline that took it for an interruption",
        a_view(
            engine=an_engine(a_node("shard-task-1", "Failed", exit_code=84, message=(
                "Pod was active on the node longer than the specified deadline")), phase="Failed"),
            stages=(a_stage_record("shard-task-1", 84, reason="Interrupted", message="Interrupted: SIGTERM"),),
        ),
        ("StageDeadline", Actor.SUBMITTER, "shard-task-1 did not end within its deadline", "shard.timeout"),
    ),
    (
        "the deadline of the whole run",
        failed("launch", 83, message="Step exceeded its deadline"),
        ("RunDeadline", Actor.SUBMITTER, "the run's own deadline passed while launch ran", "longer `deadline`"),
    ),
    (
        "a stage whose command does not exist",
        failed("preflight", 127, message="python: not found"),
        ("CommandNotFound", Actor.MACHINE, "preflight could not be started", "doctor"),
    ),
    (
        "an exit code nobody knows",
        failed("shard-plan", 9, message=""),
        ("StageFailed", Actor.ARGOSY, "shard-plan ended with exit code 9", "logs tiny-b2c4d --stage shard-plan"),
    ),
    (
        "a stage that ended before our own code ran",
        a_view(engine=an_engine(a_node("preflight", "Failed", last_lines=(
            "python: No module named components.preflight.__main__",)), phase="Failed")),
        ("ImportFailed", Actor.MACHINE, "preflight ended with exit code 1: No module named components.preflight",
         "`doctor` looks for what is missing"),
    ),
    (
        "a stage that ended with an exception nobody caught",
        a_view(engine=an_engine(a_node("preflight", "Failed", last_lines=("Traceback", "KeyError: 'x'")),
                                phase="Failed")),
        ("StageFailed", Actor.ARGOSY, "preflight ended with exit code 1: KeyError: 'x'", "--stage preflight"),
    ),
    # Stops
    (
        "a stop says who asked",
        a_view(engine=an_engine(a_node("launch", "Failed", exit_code=83), phase="Failed", stop=a_stop()),
               gangs=(a_gang(RunState.STOPPED),), checkpoints=(a_checkpoint(),)),
        ("StopRequested", Actor.SUBMITTER, "ada@box stopped the run at step 40",
         "resume tiny-b2c4d` from step-40-term-1"),
    ),
    (
        "a kill says so",
        a_view(engine=an_engine(a_node("launch", "Failed", exit_code=137), phase="Failed", stop=a_stop(force=True))),
        ("StopRequested", Actor.SUBMITTER, "ada@box killed the run", "resume tiny-b2c4d"),
    ),
    (
        "a run stopped by its own limit",
        a_view(
            engine=an_engine(a_node("launch", "Failed", exit_code=83), phase="Failed"),
            launch=a_launch(RunState.STOPPED, reason="RunDeadline", message="1h used up"),
            gangs=(a_gang(RunState.STOPPED, attempts=(a_failed_attempt(a_failure(FailureKind.RUN_DEADLINE)),)),),
        ),
        ("RunDeadline", Actor.SUBMITTER, "training used up its 1h", "raise launch.limits.run"),
    ),
    # Not over yet
    (
        "the engine is dead",
        a_view(engine=an_engine(a_node("shard-plan"), a_node("launch", "Running"), alive=False), gangs=(a_gang(),)),
        ("EngineDead", Actor.SUBMITTER, "the local engine is gone", "resume tiny-b2c4d"),
    ),
    (
        "the engine died before the first stage",
        a_view(engine=an_engine(phase="Pending", alive=False)),
        ("EngineDead", Actor.SUBMITTER, "nothing of this run is going on", "resume tiny-b2c4d"),
    ),
    (
        "nothing has started",
        a_view(engine=an_engine(a_node("shard-plan", "Pending"))),
        ("Waiting", Actor.NOBODY, "shard-plan has not started yet", "wait"),
    ),
    (
        "stages run",
        a_view(engine=an_engine(a_node("shard-plan", "Running"), a_node("preflight", "Running"))),
        ("StageRunning", Actor.NOBODY, "shard-plan, preflight run", "wait"),
    ),
    (
        "a stage is tried again",
        a_view(engine=an_engine(a_node("launch", "Running", attempts=2))),
        ("StageRetried", Actor.NOBODY, "launch failed and runs again (attempt 2)", "wait"),
    ),
    (
        "the gang starts",
        launching(a_gang(RunState.STARTING, num_joined=1, attempts=(), last_step=None, steps=())),
        ("Starting", Actor.NOBODY, "starting for 35s: 1 of 2 agents joined", "wait"),
    ),
    (
        "the gang's pods wait for an image that is not there",
        launching(
            a_gang(RunState.STARTING, num_joined=1, attempts=(), last_step=None, steps=()),
            launch=a_launch(RunState.STARTING, message="1 of 2 nodes did not start yet; node 1: program: ErrImagePull: "
                            'failed to pull image "hub/a:1": not found'),
        ),
        ("ImageNotFound", Actor.SUBMITTER, "1 of 2 nodes did not start yet", "correct"),
    ),
    (
        "no agent was ever there, and the pods wait for a place",
        a_view(
            engine=an_engine(a_node("shard-plan"), a_node("launch", "Running"), a_node("verify", "Pending")),
            launch=a_launch(RunState.STARTING, message="2 of 2 nodes did not start yet; node 0: Unschedulable: 0/3 "
                            "nodes are available: 3 Insufficient nvidia.com/gpu."),
        ),
        ("GpuShortage", Actor.NOBODY, "given up 5m after its start", "wait"),
    ),
    (
        "every node that would do was found unfit before",
        a_view(
            engine=an_engine(a_node("shard-plan"), a_node("launch", "Running"), a_node("verify", "Pending")),
            launch=a_launch(
                RunState.STARTING, message="2 of 2 nodes did not start yet; node 0: Unschedulable: 0/2 nodes are "
                "available: 2 node(s) didn't match Pod's node affinity/selector.",
                generations=(GenerationView(generation=1, created_at=at(20), excluded_nodes=("box-1", "box-2")),),
            ),
        ),
        ("NodesAvoided", Actor.PLATFORM, "found unfit or lost before (box-1, box-2)", "mend these nodes"),
    ),
    (
        "the launcher was replaced while the gang trains",
        a_view(
            engine=an_engine(a_node("shard-plan"), a_node("launch", "Pending")), gangs=(a_gang(),),
            launch=a_launch(backend="jobset", generations=(GenerationView(generation=0, created_at=at(20)),)),
        ),
        ("Training", Actor.NOBODY, "the ranks train", "wait"),
    ),
    (
        "the launcher was away while the gang started",
        launching(a_gang(), launch=a_launch(RunState.STARTING, message="1 of 2 nodes did not start yet; node 1: x")),
        ("Training", Actor.NOBODY, "the ranks train", "wait"),
    ),
    (
        "the gang starts slowly",
        launching(a_gang(RunState.STARTING, num_joined=1, attempts=(), created_at="2026-11-29T11:57:00.000Z")),
        ("SlowStart", Actor.MACHINE, "1 of 2 agents joined; it is given up after 5m", "logs tiny-b2c4d"),
    ),
    (
        "no step yet",
        launching(a_gang(attempts=(an_attempt(last_step=None),), last_step=None, steps=())),
        ("NoStepYet", Actor.NOBODY, "the ranks run since 30s and have not reported a step", "wait"),
    ),
    (
        "a gang that has ended",
        launching(a_gang(RunState.FAILED, attempts=(), last_step=None, steps=(), exit_code=92, reason="GuardLost",
                         message="node 1: the program's container did not report within 2m")),
        ("GangEnded", Actor.NOBODY, "ended as Failed: GuardLost: node 1", "the launch stage decides what follows"),
    ),
    (
        "a Workflow that somebody suspended",
        a_view(engine=an_engine(a_node("shard-plan", "Running"), message="WorkflowSuspended: somebody suspended "
               "Workflow tiny-b2c4d, so Argo starts no stage and ends none; resume it in the Argo UI")),
        ("WorkflowSuspended", Actor.SUBMITTER, "Argo starts no stage", "resume it in the Argo UI"),
    ),
    (
        "training",
        launching(a_gang()),
        ("Training", Actor.NOBODY, "are at step 40 of 60", "wait"),
    ),
    (
        "training after restarts",
        launching(a_gang(restarts_used=2)),
        ("Training", Actor.NOBODY, "are at step 40 of 60, after 2 restarts", "wait"),
    ),
    (
        "an engine that could not record what happens",
        a_view(engine=an_engine(a_node("launch", "Running"), phase="Error", exit_code=81, message="RunNotRecorded: "
               "cannot write events.jsonl: No space left on device; free space there, then resume the run")),
        ("RunNotRecorded", Actor.MACHINE, "No space left on device", "free space there, then resume the run"),
    ),
    (
        "training that saves nothing",
        launching(a_gang(checkpoints=(
            CheckpointView(checkpoint="step-20-term-1", step=20, state="verified", at=at(40)),
            CheckpointView(checkpoint="step-40-term-1", step=40, state="abandoned", reason="no space", at=at(50)),
        )), checkpoints=(a_checkpoint(20),)),
        ("NotSaving", Actor.MACHINE, "step-40-term-1 was not saved: no space", "the steps since step-20-term-1"),
    ),
    (
        "a hang in the making",
        launching(a_gang(last_step=a_step(40, 0).model_copy(update={"at": "2026-11-29T11:57:30.000Z"}))),
        ("NoProgress", Actor.PROGRAM, "no new step for 3m30s, last step 40 of 60; a hang is declared after 4m",
         "look where the ranks wait"),
    ),
    (
        "an agent that says nothing",
        launching(a_gang(updated_at="2026-11-29T11:58:00.000Z")),
        ("AgentSilent", Actor.MACHINE, "agent 0 has written nothing for 3m", "storage hangs"),
    ),
    (
        "the ranks restart",
        launching(a_gang(RunState.RESTARTING, restarts_used=1,
                         attempts=(a_failed_attempt(a_failure(last_lines=("ValueError: x",))),))),
        ("Restarting", Actor.NOBODY, "rank 1 exited with code 1: ValueError: x (restart 1 of 3)", "wait"),
    ),
    (
        "a stop under way",
        a_view(engine=an_engine(a_node("launch", "Running"), stop=a_stop()), gangs=(a_gang(),)),
        ("Stopping", Actor.NOBODY, "ada@box asked the run to stop", "--force"),
    ),
    (
        "all went well",
        a_view(engine=an_engine(a_node("launch"), phase="Succeeded"), checkpoints=(a_checkpoint(),)),
        ("Succeeded", Actor.NOBODY, "finished with step-40-term-1, verified (tensors) after 59s", "checkpoints list"),
    ),
    (
        "all went well without checkpoints",
        a_view(engine=an_engine(a_node("launch"), phase="Succeeded")),
        ("Succeeded", Actor.NOBODY, "without checkpoints", "nothing is left to do"),
    ),
    (
        "a failure that no stage explains",
        a_view(engine=an_engine(phase="Error", message="manifest refused: spec.x")),
        ("Failed", Actor.ARGOSY, "manifest refused: spec.x", "logs tiny-b2c4d"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("view", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_run_is_explained(view, expected):
    reason, actor, cause, action = expected

    found = diagnose(view, NOW)

    assert (found.reason, found.actor) == (reason, actor)
    assert cause in found.cause
    assert action in found.action


@pytest.mark.parametrize("view", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_headline_is_one_sentence_that_reads(view):
    found = diagnose(view, NOW)

    for text in (found.cause, found.action):
        assert text
        assert "\n" not in text
        assert not text.endswith((".", ";", " "))
        assert "None" not in text


def test_a_failed_run_shows_the_evidence_it_was_judged_by():
    view = ranks_say("Traceback (most recent call last):", "ValueError: bad batch")

    evidence = [(item.object, item.field, item.value) for item in diagnose(view, NOW).evidence]

    assert ("stage launch", "exit code", "90") in evidence
    assert ("rank 1", "ended by", "exit code 1") in evidence
    assert ("rank 1", "last lines", "ValueError: bad batch") in evidence
    assert ("attempt 0.0", "outcome", "failed at step 40, from step 0: RankExit") in evidence
    assert ("gang", "restarts used", "3 of 3") in evidence


def test_a_failed_check_shows_measured_expected_and_origin():
    view = failed(
        "preflight", 81, reason="Unfit", message="Unfit: x", checks=(a_check_report(a_check("memory", subject="box")),)
    )

    (check,) = [item for item in diagnose(view, NOW).evidence if item.object == "check memory (box)"]

    assert check.value == "measured 1 GiB, expected at least 2 GiB (from launch.memory_per_rank)"


def test_all_faults_of_a_bad_input_are_evidence():
    message = "BadSpec: --spec is wrong; correct it\n  a: missing\n  b: not a number"
    view = failed("shard-plan", 78, reason="BadSpec", message=message, fix="correct it")

    found = diagnose(view, NOW)

    assert found.headline == "BadSpec: --spec is wrong; correct it"
    assert [item.value for item in found.evidence if item.field == "fault"] == ["a: missing", "b: not a number"]


def test_a_long_list_of_faults_keeps_its_last_line_which_says_what_to_do():
    faults = [f"file-{number}: cannot be read" for number in range(20)]
    listed = [*faults, "…: and 80 more", "bad_records.max: 100 files cannot be read; raise it"]
    message = "\n  ".join(["CorpusRefused: corpus c cannot be packed", *listed])
    view = failed("shard-plan", 78, reason="CorpusRefused", message=message)

    assert [item.value for item in diagnose(view, NOW).evidence if item.field == "fault"] == listed


def test_the_newest_failure_counts_when_the_last_generation_has_none():
    first = a_gang(RunState.FAILED, attempts=(a_failed_attempt(a_failure(FailureKind.AGENT_LOST, message="gone")),))
    second = a_gang(RunState.FAILED, generation=1, attempts=())
    view = failed("launch", 92, reason="PeerLost", message="PeerLost: x", gangs=(first, second))

    assert diagnose(view, NOW).reason == "AgentLost"
    assert RUN in diagnose(view, NOW).action


def test_generations_and_quarantined_checkpoints_are_evidence():
    first = GenerationView(generation=0, created_at=at(20), begin_reason="FirstStart")
    second = GenerationView(generation=1, created_at=at(40), begin_reason="LauncherLost")
    view = launching(
        a_gang(generation=1),
        launch=a_launch(generations=(first, second)),
        checkpoints=(a_checkpoint(30, "quarantined", reason="wte.weight holds 2 NaN"),),
    )

    evidence = [(item.object, item.field, item.value) for item in diagnose(view, NOW).evidence]

    assert ("generation 1", "began because", "LauncherLost, not charged") in evidence
    assert ("checkpoint step-30-term-1", "quarantined", "wte.weight holds 2 NaN") in evidence
