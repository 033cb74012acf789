"""Random states of the ranks: seeded apart, gathered into the checkpoint, restored from it."""

import torch
import torch.distributed as dist


def seed_rank(seed: int, rank: int, step: int) -> None:
    """Seed this rank apart from the others (they must not drop the same activations)."""
    torch.manual_seed((seed * 1_000_003 + rank) * 1_000_003 + step)


def gather_random_states(device: torch.device) -> tuple[str, ...]:
    """Every rank's state in rank order, hexadecimal. A collective: all ranks call it."""
    mine = _state(device).to(device)
    everyone = mine.new_empty(dist.get_world_size() * mine.numel())
    dist.all_gather_into_tensor(everyone, mine)
    return tuple(bytes(row.tolist()).hex() for row in everyone.cpu().view(-1, mine.numel()))


def set_random_state(text: str, device: torch.device) -> None:
    """Take back what `gather_random_states` gave for this rank."""
    state = torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
