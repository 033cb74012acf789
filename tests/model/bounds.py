"""The bounds within which the model is searched whole: small ones in `make test`, large ones in `make soak`."""

from tests.model.checkpoints import FLIPPED, LOST, Model

SMALL = {
    "a damaged one, three checkpoints, a restart or a zombie": Model(max_checkpoints=3, num_damages=1),
    "a damaged one, four checkpoints": Model(num_damages=1, num_starts=0),
    "two lost, four checkpoints": Model(num_damages=2, damages=(LOST,), num_starts=0),
    "a poisoned one, four checkpoints": Model(num_poisons=1, num_starts=0),
    "two restarts or zombies, three checkpoints": Model(max_checkpoints=3, num_starts=2),
    "one copy, two cleaners, nothing damaged": Model(keep_last=1, num_cleaners=2, max_checkpoints=3),
}

LARGE = {
    "a damaged one, four checkpoints, a restart or a zombie": Model(num_damages=1, damages=(FLIPPED,)),
    "a poisoned one, four checkpoints, a restart or a zombie": Model(num_poisons=1),
    "two cleaners, four checkpoints, a restart or a zombie": Model(num_cleaners=2),
}
