"""Checkpoints as the real libraries write them: sound ones pass, and every bit of a tensor that flips is found."""

import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.integrity.compare import Previous, compare_types
from components.integrity.inspector import TensorType
from tests.components.integrity.looking import SOUND, look, told
from tests.damage.torch_like import archive, tensor

ROOT = Path(__file__).parents[3]
FOLDERS = [
    "torch", "lightning", "hf-trainer/checkpoint-300", "torchtitan/step-300", "megatron/iter_0000300",
]  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_the_libraries_wrote_is_in_order(folder: str) -> None:
    found = look(SOUND / folder)

    assert found.faults == ()
    assert found.num_tensors > 0


def test_the_tensors_of_a_torch_file_are_named_by_their_path() -> None:
    types = {key: kind.spelled for key, kind in look(SOUND / "torch").types.items()}

    assert types == {
        "model.pt:model.layer.weight": "F32[4,3]", "model.pt:model.layer.bias": "BF16[4]",
        "model.pt:model.count": "I64[3]", "model.pt:extra.part": "F32[3]", "model.pt:extra.slice": "F32[4]",
        "model.pt:extra.empty": "F32[0,3]", "model.pt:extra.f8": "F8_E4M3[3]", "model.pt:extra.parameter": "F32[2]",
    }  # fmt: skip


def entries_of(path: Path) -> list[tuple[str, int, int]]:
    """(name, begin, end) of each entry's data, by the standard library."""
    found = []
    with zipfile.ZipFile(path) as file, path.open("rb") as raw:
        for info in file.infolist():
            raw.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", raw.read(4))
            begin = info.header_offset + 30 + name + extra
            found.append((info.filename, begin, begin + info.file_size))
    return found


def test_every_flipped_bit_of_a_torch_file_s_data_is_found(tmp_path: Path) -> None:
    path = shutil.copytree(SOUND / "torch", tmp_path / "torch") / "model.pt"
    sound = path.read_bytes()
    for name, begin, end in entries_of(path):
        for offset in range(begin, end, 1 if end - begin < 200 else 11):
            path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 1 << offset % 8]) + sound[offset + 1 :])
            found = look(path.parent).faults
            assert any(f"CRC-32 of {name.split('/', 1)[1]} differs" in str(fault) for fault in found), (name, offset)


def test_every_flipped_bit_of_a_distributed_tensor_is_found_and_named(tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "torchtitan" / "step-300", tmp_path / "step-300")
    path = folder / "__1_0.distcp"
    sound = path.read_bytes()
    weight = struct.pack("<6f", *range(6, 12))  # rows 2 and 3: rank 1's half
    begin = sound.index(weight)
    for offset in range(begin, begin + len(weight)):
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 1 << offset % 8]) + sound[offset + 1 :])
        assert f"__1_0.distcp, tensor model.layer.weight, byte {begin}: CRC-32 of data/0 differs" in told(folder)[0]


@pytest.mark.parametrize(("folder", "name"), [("torch", "model.pt"), ("torchtitan/step-300", "__0_0.distcp"),
                                              ("torchtitan/step-300", ".metadata")])  # fmt: skip
def test_a_file_cut_anywhere_is_found(tmp_path: Path, folder: str, name: str) -> None:
    copy = shutil.copytree(SOUND / folder, tmp_path / "copy")
    sound = (copy / name).read_bytes()
    for size in range(0, len(sound), 37):
        (copy / name).write_bytes(sound[:size])
        assert told(copy), size


def test_two_files_of_two_saves_are_no_checkpoint(tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "torchtitan" / "step-300", tmp_path / "step-300")
    zero, one = folder / "__0_0.distcp", folder / "__1_0.distcp"
    data = zero.read_bytes()
    zero.write_bytes(one.read_bytes())
    one.write_bytes(data)

    assert told(folder)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(FOLDERS))
def test_a_mangled_checkpoint_is_judged_not_crashed_on(seed: int, num_changes: int, name: str) -> None:
    import tempfile

    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(SOUND / name, Path(scratch, Path(name).name))
        path = rng.choice(sorted(item for item in folder.iterdir() if item.is_file()))
        data = bytearray(path.read_bytes())
        for _ in range(num_changes):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(5):
                case 0 if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    del data[at : at + rng.randrange(1, 64)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
                case 3:
                    data[at : at + 4] = struct.pack("<I", rng.choice([0, 1, len(data), 2**31, 2**32 - 1]))
                case _:
                    end = data.rfind(b"PK", 0, rng.randrange(len(data) + 1))
                    data[max(end, 0) + 8 : max(end, 0) + 12] = rng.randbytes(4)
        path.write_bytes(data)
        for fault in look(folder).faults:
            assert str(fault).isprintable()


def test_nan_beside_a_tensor_in_its_storage_is_nobody_s(tmp_path: Path) -> None:
    values = struct.pack("<4f", float("nan"), 1, 2, float("nan"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m.pt").write_bytes(archive({"w": tensor("0", [2], offset=1, count=4)}, {"0": values}))
    (tmp_path / "b").mkdir()
    poisoned = archive({"w": tensor("0", [2], offset=2, count=4)}, {"0": values})
    (tmp_path / "b" / "m.pt").write_bytes(poisoned)

    assert told(tmp_path / "a") == []
    assert told(tmp_path / "b") == [
        f"m.pt, tensor w, byte {poisoned.index(values) + 12}: is not finite (expected finite values, found NaN)"
    ]


def test_files_are_looked_at_side_by_side_with_one_answer(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(40):
        poison = float("nan") if number % 7 == 0 else 1.0
        data = archive({"w": tensor("0", [2])}, {"0": struct.pack("<2f", 0, poison)})
        (folder / f"rank-{number:02}.pt").write_bytes(data)

    one, four = look(folder), look(folder, workers=4)

    assert one == four
    assert [fault.file for fault in one.faults] == [f"rank-{number:02}.pt" for number in range(0, 40, 7)]


def types(**shapes: tuple[int, ...]) -> dict[str, TensorType]:
    return {f"m:{name}": TensorType(name, "I64" if name == "n" else "F32", shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("is_same_run", [True, False])
def test_a_weight_that_changes_its_type_within_a_run_is_a_fault(is_same_run: bool) -> None:
    before, now = types(w=(2, 2), n=(3,), old=()), types(w=(2, 3), n=(4,), new=())

    faults, notes = compare_types(now, before, previous=Previous("step-1-term-1", "f", "", is_same_run))

    changed = "n I64[3] -> I64[4]" + ("" if is_same_run else ", w F32[2,2] -> F32[2,3]")
    assert notes == [
        f"types changed since step-1-term-1: {changed}", "tensors that are new since step-1-term-1: new",
        "tensors that are gone since step-1-term-1: old",
    ]  # fmt: skip
    told = "m, tensor w: differs in type from step-1-term-1 of the same run (expected F32[2,2], found F32[2,3])"
    assert [str(fault) for fault in faults] == ([told] if is_same_run else [])


@pytest.mark.e2e
def test_what_this_torch_writes_is_in_order(tmp_path: Path) -> None:
    script = SOUND / "make_sound.py"
    environment = {**os.environ, "MASTER_PORT": "29583"}
    subprocess.run([sys.executable, "-W", "ignore", script, tmp_path], check=True, env=environment, timeout=240)

    for folder in FOLDERS:
        found = look(tmp_path / folder)
        assert (found.faults, found.num_tensors) == ((), look(SOUND / folder).num_tensors)


def test_looking_inside_loads_no_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from tests.components.integrity.looking import look, SOUND;"
        "look(SOUND / 'torch'); look(SOUND / 'torchtitan' / 'step-300'); print({'torch', 'pickle'} & set(sys.modules))"
    )

    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "torch" not in result.stdout
