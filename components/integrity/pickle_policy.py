"""Which names in a pickle mean that loading it would run a program.

A list cannot know every such name, so it decides only what is reported; nothing is run here whatever a pickle names.
"""

from typing import Any

from components.integrity.pickle_values import Symbol

_BUILTINS = ("builtins", "__builtin__")
_HARMLESS_BUILTINS = {
    "set", "frozenset", "bytearray", "bytes", "complex", "slice", "range", "list", "dict", "tuple", "int", "float",
    "str", "bool", "object", "Exception", "NoneType", "Ellipsis", "NotImplemented", "type", "getattr",
}  # fmt: skip
_DANGEROUS = {
    "aiohttp", "asyncio", "bdb", "cProfile", "cffi", "cloudpickle", "code", "codeop", "commands", "ctypes", "dill",
    "doctest", "ensurepip", "fileinput", "ftplib", "http", "httpx", "imp", "importlib", "joblib", "marshal",
    "multiprocessing", "nt", "os", "pdb", "_pickle", "pickle", "pip", "pkgutil", "posix", "profile", "pty", "pydoc",
    "requests", "runpy", "shutil", "signal", "site", "smtplib", "socket", "ssl", "subprocess", "sys", "tempfile",
    "timeit", "trace", "urllib", "venv", "webbrowser", "zipimport",
}  # fmt: skip
_DANGEROUS_PREFIXES = (
    "numpy.testing.", "numpy.f2py.", "numpy.load", "numpy.distutils.", "torch.load", "torch.serialization.load",
    "torch.hub.", "torch.jit.", "torch.package.", "torch.fx.", "torch.testing.", "torch.utils.cpp_extension.",
    "torch.utils.collect_env.", "torch.utils.bottleneck.", "torch.utils.model_zoo.", "torch._inductor.",
    "torch._dynamo.", "torch.distributed.run.", "torch.distributed.elastic.", "torch.distributed.launcher.",
    "torch.storage._load_from_bytes", "types.FunctionType", "types.CodeType", "operator.methodcaller",
    "operator.attrgetter", "functools.reduce", "platform.popen", "platform._syscmd",
)  # fmt: skip
_OWN = ("torch", "collections", "numpy", "_codecs", "copyreg", *_BUILTINS)


def fault_of_symbol(symbol: Symbol) -> str:
    """Why nobody honest names this in a checkpoint; empty when they may."""
    full = f"{symbol.module}.{symbol.name}"
    parts = full.split(".")
    runs = symbol.module in _BUILTINS and symbol.name not in _HARMLESS_BUILTINS
    # `torch.serialization` has an attribute `os`: a dotted name reaches a module through another one.
    runs = runs or parts[0] in _DANGEROUS or any(part in _DANGEROUS for part in symbol.name.split("."))
    runs = runs or full.startswith(_DANGEROUS_PREFIXES) or any(part.startswith("__") for part in parts[2:])
    return f"would run {_shown(full)} when it is loaded" if runs else ""


def fault_of_call(func: Symbol, args: tuple[Any, ...]) -> str:
    """Why this call is an attack although the name alone is not; empty when it may be honest."""
    if func.module in _BUILTINS and func.name == "getattr":
        name = args[1] if len(args) > 1 else None
        if not isinstance(name, str) or name.startswith("__") or name in _DANGEROUS:
            return "would take an object apart with getattr when it is loaded"
    return ""


def is_foreign(symbol: Symbol) -> bool:
    """Whether loading it needs a package beyond torch and numpy."""
    return symbol.module.split(".")[0] not in _OWN


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])
