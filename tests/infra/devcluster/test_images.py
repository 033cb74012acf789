"""What goes into the images, and how clients learn of them."""

import subprocess
from pathlib import Path

from infra.devcluster import access, images
from infra.devcluster.layout import Layout

LOCK = """click==8.5.1 \\
    --hash=sha256:aa
    # via argosy
torch==2.15.0 ; sys_platform == 'linux' \\
    --hash=sha256:bb
typing-extensions==4.16.0 \\
    --hash=sha256:cc
"""


def test_only_the_needed_packages_are_taken_with_their_hashes() -> None:
    assert images.runtime_requirements(LOCK, {"click", "typing-extensions"}) == (
        "click==8.5.1 \\\n    --hash=sha256:aa\n    # via argosy\ntyping-extensions==4.16.0 \\\n    --hash=sha256:cc\n"
    )


def test_the_platform_image_has_neither_torch_nor_test_tools() -> None:
    names = images.needed_names()
    assert {"boto3", "kubernetes", "pydantic", "argo-workflows", "pyarrow", "botocore"} <= names
    assert not names & {"torch", "pytest", "hypothesis", "ruff", "mypy"}


def test_the_environment_file_survives_the_shell() -> None:
    found = [
        images.Image(name, "dev", f"sha256:{name}", Path()) for name in ("argosy-platform", "argosy-train")
    ]  # fmt: skip
    variables = access.environment(Layout(2), found, "a 'quoted' token")
    script = access.shell(variables) + 'printf "%s|%s" "$ARGO_TOKEN" "$DEVCLUSTER_PLATFORM_IMAGE"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "Bearer a 'quoted' token|localhost/argosy-platform@sha256:argosy-platform"
