"""The environment of a container on this machine: an allow-list, so a run does not depend on who started it how."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.local.run_dir import CHECKOUT

STOP_FILE = "ARGOSY_STOP_FILE"
"""Names the file whose appearance asks a run to stop; also marks every process of that run."""
_NAMES = frozenset(
    (
        "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "ARGOSY_HOME", "LD_LIBRARY_PATH",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
        "http_proxy", "https_proxy", "no_proxy", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    )
)  # fmt: skip
_PREFIXES = (
    "LC_", "CUDA_", "NCCL_", "GLOO_", "UCX_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "KMP_", "TORCH_",
    "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "HF_", "AWS_", "ARGOSY_S3_", "ARGOSY_CACHE",
)  # fmt: skip


def container_environment(
    inherited: Mapping[str, str], given: Mapping[str, str], *, folder: Path, stop_path: Path, node: str, image: str
) -> dict[str, str]:
    """Variables of one attempt in `folder`. `given` are its template's, over inherited ones and under the engine's own.

    `node` names this machine, `image` what would run in a pod.
    """
    kept = {name: value for name, value in inherited.items() if name in _NAMES or name.startswith(_PREFIXES)}
    interpreter = str(Path(sys.executable).parent)  # not resolved: a virtual environment is where it was started
    return {
        **kept,
        **given,
        "PATH": os.pathsep.join([interpreter, inherited.get("PATH", os.defpath)]),
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        "ARGOSY_TARGET": "local",
        "ARGOSY_OUT": str(folder / "out"),
        STOP_FILE: str(stop_path),
        "ARGOSY_TERMINATION_LOG": str(folder / "last-words"),
        "ARGOSY_NODE": node,
        "ARGOSY_IMAGE": image,
    }
