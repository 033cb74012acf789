"""The training loop: DDP, deterministic, resumable and stoppable at every step boundary."""

import math
import time
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from components.dataset.loader import Loader
from components.dataset.reader import Cursor, DatasetDamaged, PackedDataset
from components.trainer.arguments import Arguments
from components.trainer.checkpoint import TrainingState, load_tensors, read_state, write_checkpoint
from components.trainer.endings import TrainingDiverged, Unusable
from components.trainer.model import ModelShape, Transformer
from components.trainer.place import join, make_deterministic
from components.trainer.progress import Progress, Step
from components.trainer.random_state import gather_random_states, seed_rank, set_random_state
from components.trainer.reduction import OrderedSum, ordered_sum
from components.trainer.stop import StopFlag
from components.trainer.worker import Worker


def train(arguments: Arguments, worker: Worker) -> None:
    """Train to `arguments.steps`, or until a stop. Raises Unusable for input that does not fit."""
    try:
        data = PackedDataset(worker.data)
    except DatasetDamaged as error:
        raise Unusable(str(error)) from error
    shape = ModelShape(
        layers=arguments.layers, width=arguments.width, heads=arguments.heads, vocab_size=data.vocab_size,
        context=data.sequence_length - 1,
    )  # fmt: skip
    resumed = read_state(worker.resume, shape) if worker.resume is not None else None
    if resumed is not None and resumed.step >= arguments.steps:
        say(worker, f"nothing left to do: the checkpoint is at step {resumed.step} of {arguments.steps}")
        return
    device = join(arguments, worker)
    # Only now: until all have met there is nothing to save, and a SIGTERM shall end a rank that waits for the others.
    stop = StopFlag(worker.stop)
    make_deterministic(arguments, worker, device)
    try:
        _Training(arguments, worker, data, shape, resumed, device, stop).run()
    finally:
        dist.destroy_process_group()


def say(worker: Worker, message: str) -> None:
    """A line for people, from the first rank only."""
    if worker.is_first:
        print(message, flush=True)


class _Training:
    def __init__(
        self, arguments: Arguments, worker: Worker, data: PackedDataset, shape: ModelShape,
        resumed: TrainingState | None, device: torch.device, stop: StopFlag,
    ) -> None:  # fmt: skip
        self._arguments, self._worker, self._data, self._shape = arguments, worker, data, shape
        self._device, self._stop = device, stop
        self._model = Transformer(shape, dropout=arguments.dropout).to(device)
        self._optimizer = _optimizer(self._model, arguments)
        self._step, self._checkpointed = 0, -1
        start = data.cursor(seed=worker.seed)
        seed_rank(worker.seed, worker.rank, 0)
        if resumed is not None:
            start = self._restore(resumed)
        self._loader = Loader(
            data, start, global_batch=arguments.batch * worker.world_size, rank=worker.rank,
            world_size=worker.world_size,
        )  # fmt: skip
        self._sum = OrderedSum(worker.world_size)
        self._ddp = DistributedDataParallel(self._model, device_ids=[device] if device.type == "cuda" else None)
        self._ddp.register_comm_hook(None, self._sum.hook)

    def run(self) -> None:
        worker, total = self._worker, self._arguments.steps
        say(worker, self._introduction())
        log_every = self._arguments.log_every if worker.is_first else None
        with self._loader, Progress(worker.progress, log_every=log_every) as progress:
            stopping = False
            while self._step < total and not stopping:
                step, stopping = self._one_step()
                progress.record(step)
                every = worker.checkpoint_every
                if stopping or self._step == total or (every and self._step % every == 0):
                    self._checkpoint()
        if stopping and self._step < total:
            say(worker, f"stopped at step {self._step} of {total}")
        else:
            say(worker, f"finished {total} steps")

    def _one_step(self) -> tuple[Step, bool]:
        began = time.perf_counter()
        inputs, targets, num_targets = self._batch()
        got_data = time.perf_counter()
        self._set_learning_rate()
        loss_sum = self._ddp(inputs, targets)
        gathering = time.perf_counter()
        total_loss, total_targets, num_stopping = self._gather(loss_sum, num_targets)
        gathered = time.perf_counter()
        loss = total_loss / max(1.0, total_targets)
        if not math.isfinite(loss):
            raise TrainingDiverged(f"the loss is {loss} at step {self._step + 1}; lower --lr, or raise --warmup")
        # Divided by everybody's targets, so that the sum over ranks is the gradient of the gang's mean loss.
        (loss_sum / max(1.0, total_targets)).backward()
        if self._arguments.clip:
            nn.utils.clip_grad_norm_(self._model.parameters(), self._arguments.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._step += 1
        ended = time.perf_counter()
        comm = self._sum.take_seconds() + gathered - gathering
        step = Step(
            step=self._step, total_steps=self._arguments.steps, loss=loss, tokens=int(total_targets),
            step_s=ended - began, data_s=got_data - began, comm_s=comm, compute_s=ended - got_data - comm,
        )  # fmt: skip
        return step, num_stopping > 0

    def _batch(self) -> tuple[Tensor, Tensor, int]:
        batch = next(self._loader)
        return (
            torch.from_numpy(batch.inputs).to(self._device),
            torch.from_numpy(batch.targets).to(self._device),
            int((batch.targets >= 0).sum()),
        )

    def _gather(self, loss_sum: Tensor, num_targets: int) -> tuple[float, float, float]:
        """Sums over the gang of loss, targets and stop flags, in one exchange: so all ranks stop at the same step."""
        mine = torch.tensor([0.0, num_targets, self._stop.is_up()], dtype=torch.float64, device=self._device)
        mine[0] = loss_sum.detach()
        loss, targets, stopping = ordered_sum(mine, self._worker.world_size).tolist()
        return loss, targets, stopping

    def _set_learning_rate(self) -> None:
        rate = learning_rate(self._step, self._arguments)
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _checkpoint(self) -> None:
        worker = self._worker
        if worker.checkpoints is None or self._checkpointed == self._step:
            return
        self._checkpointed = self._step
        random_states = gather_random_states(self._device)
        if worker.is_first:
            state = TrainingState(
                step=self._step, cursor=self._loader.state(), shape=self._shape, settings=asdict(self._arguments),
                random_states=random_states,
            )  # fmt: skip
            write_checkpoint(worker.checkpoints / f"step-{self._step}", state, self._model, self._optimizer)
            say(worker, f"checkpoint of step {self._step} written")

    def _restore(self, resumed: TrainingState) -> Cursor:
        """Everything but the data, and the place in that."""
        worker = self._worker
        assert worker.resume is not None
        load_tensors(worker.resume, resumed, self._model, self._optimizer)
        self._step = self._checkpointed = resumed.step
        if len(resumed.random_states) == worker.world_size:
            set_random_state(resumed.random_states[worker.rank], self._device)
        else:
            seed_rank(worker.seed, worker.rank, resumed.step)
            say(worker, f"{worker.world_size} ranks instead of {len(resumed.random_states)}: random states start anew")
        return self._resumed_cursor(resumed)

    def _resumed_cursor(self, resumed: TrainingState) -> Cursor:
        if resumed.cursor.get("data_version") != self._data.data_version:
            say(self._worker, f"new data {self._data.data_version}: its first epoch begins here")
            return self._data.cursor(seed=self._worker.seed)
        try:
            return self._data.cursor(seed=self._worker.seed, state=resumed.cursor)
        except (KeyError, ValueError) as error:
            raise Unusable(f"{self._worker.resume}: {error}") from error

    def _introduction(self) -> str:
        num_parameters = sum(parameter.numel() for parameter in self._model.parameters())
        start = f"from step {self._step}" if self._step else "from the start"
        return (
            f"{num_parameters / 1e6:.2f} M parameters, {self._worker.world_size} ranks on {self._device.type}, "
            f"{len(self._data)} sequences of {self._data.sequence_length}, {start} to step {self._arguments.steps}"
        )


def learning_rate(step: int, arguments: Arguments) -> float:
    """The rate for the step after `step` finished ones: linear warm-up, then half a cosine down to a tenth."""
    if step < arguments.warmup:
        return arguments.lr * (step + 1) / arguments.warmup
    done = (step - arguments.warmup) / max(1, arguments.steps - arguments.warmup)
    return arguments.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


def _optimizer(model: nn.Module, arguments: Arguments) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": arguments.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=arguments.lr, betas=(0.9, 0.95), foreach=True)
