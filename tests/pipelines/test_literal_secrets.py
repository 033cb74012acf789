"""What reads as a secret is not put into objects of a cluster as it is, and what only looks a little like one is."""

import pytest

from pipelines.config import load_config
from pipelines.literal_secrets import literal_secrets

CANARY = "canary7f3aQ91kLm22"


def faults(*overrides: str) -> list[str]:
    found = list(literal_secrets(load_config(recipe="tiny", overrides=list(overrides))))
    assert CANARY not in str(found)
    return [item.where for item in found]


@pytest.mark.parametrize(
    "env",
    [f"HF_TOKEN: {CANARY}", f"DB_PASSWORD: {CANARY}", f"WANDB_API_KEY: {CANARY}", f"AWS_SECRET_ACCESS_KEY: {CANARY}",
     f"ANYTHING: hf_{CANARY}", f"URL: 'https://kim:{CANARY}@example.org/x'"],
)  # fmt: skip
def test_a_variable_that_reads_as_a_secret_is_named(env: str) -> None:
    assert faults(f"launch.env={{{env}}}") == [f"launch.env.{env.partition(':')[0]}"]


@pytest.mark.parametrize(
    "env",
    ["PAD_TOKEN: '[PAD]'", "EOS_TOKEN: '<|endoftext|>'", "TOKENIZERS_PARALLELISM: 'false'", "MAX_TOKENS: '4096'",
     "API_KEY: /run/secrets/api-key", "HF_TOKEN: ''", "NCCL_DEBUG: INFO", "KEY: abc", "PASSWORD: ''",
     "MODEL: hf-internal-testing/tiny-random-gpt2", "MODEL: sk-learn-classifier"],
)  # fmt: skip
def test_what_is_none_passes(env: str) -> None:
    assert faults(f"launch.env={{{env}}}") == []


def test_a_word_of_the_command_is_named_by_its_place() -> None:
    assert faults(f"launch.command=[python, train.py, --hub, hf_{CANARY}]") == ["launch.command[3]"]
