"""Where a command acts: this machine, or a cluster named by option, environment or the user's configuration file."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from components.errors import BadInput, Problem

if TYPE_CHECKING:
    from infra.argo.argo import Argo
    from infra.argo.submitted import Place

Function = TypeVar("Function", bound=Callable[..., Any])

TARGETS = ("local", "kubernetes", "argo-server")

_FILE_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes": ("context", "namespace", "kubeconfig"),
    "argo_server": ("url", "namespace", "token_file", "ca_file", "insecure_skip_verify"),
}


@dataclass(frozen=True)
class PlaceOptions:
    """What was given on the command line."""

    target: str | None = None
    context: str | None = None
    namespace: str | None = None
    server: str | None = None

    def __str__(self) -> str:
        return " ".join(f"--{name} {value}" for name, value in vars(self).items() if value)

    @property
    def is_of_cluster(self) -> bool:
        """Whether it says, with or without a target, that a cluster is meant."""
        return self.target not in (None, "local") or bool(self.context or self.namespace or self.server)


@dataclass(frozen=True)
class Target:
    """A place, resolved: where, and how to get in."""

    name: str
    origin: str
    """What chose it: `--target`, `ARGOSY_TARGET`, a file, or the default."""
    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""
    server: str = ""
    token_given: str = ""
    """By the environment."""
    token_file: str = ""
    ca_file: str = ""
    skip_verify: bool = False
    instance_id: str = ""
    given: PlaceOptions = PlaceOptions()

    @property
    def is_namespace_given(self) -> bool:
        """On the command line."""
        return bool(self.given.namespace)

    @property
    def is_local(self) -> bool:
        return self.name == "local"

    @property
    def token(self) -> str:
        """Raises BadInput when its file cannot be read: only who goes to an Argo Server needs it."""
        return self.token_given or _token(self.token_file)

    def connect(self) -> "Argo":
        """The door to that place. Raises BadInput when it is not known where it is or who we are."""
        if self.name == "kubernetes":
            from components.cluster.api import KubernetesCluster
            from infra.argo.kubernetes import ArgoByKubernetes

            return ArgoByKubernetes(
                KubernetesCluster.connect(
                    context=self.context, namespace=self.namespace, kubeconfig=self.kubeconfig, is_patient=False
                )
            )
        from infra.argo.server import ArgoByServer

        if not self.server:
            fix = "set --server, ARGO_SERVER, or argo_server.url in the configuration file"
            raise BadInput("NoServer", "no Argo Server is named", fix)
        return ArgoByServer.connect(
            url=self.server, namespace=self.namespace or "default", token=self.token, ca_file=self.ca_file,
            skip_verify=self.skip_verify,
        )  # fmt: skip

    def place(self, argo: "Argo") -> "Place":
        """What to remember of it."""
        from components.cluster.api import KubernetesCluster
        from infra.argo.submitted import Place

        cluster = getattr(argo, "cluster", None)
        context = cluster.context if isinstance(cluster, KubernetesCluster) else ""
        return Place(
            target="kubernetes" if self.name == "kubernetes" else "argo-server", namespace=argo.namespace,
            context=context, kubeconfig=self.kubeconfig, server=self.server,
        )  # fmt: skip

    def at(self, place: "Place") -> "Target":
        """The target of a run submitted earlier, entered with the credentials of now."""
        return replace(
            self, name=place.target, namespace=place.namespace, context=place.context, server=place.server,
            kubeconfig=place.kubeconfig or self.kubeconfig,
        )  # fmt: skip

    def is_another_door(self, place: "Place") -> bool:
        """Whether the command line says another way in than `place` has. What the environment and files say is for
        runs that begin.
        """
        given = self.given
        return bool(given.target or given.context or given.server) and self.name != place.target

    def is_elsewhere(self, place: "Place") -> bool:
        """Whether the command line says another cluster or namespace than `place`, as far as both can be compared."""
        said = (self.given.namespace, self.given.context, _address(self.given.server or ""))
        noted = (place.namespace, place.context, _address(place.server))
        return any(one and other and one != other for one, other in zip(said, noted, strict=True))

    def instead_of(self, place: "Place") -> "Target":
        """Where the command line says; as in `place` is what it leaves open."""
        given, noted = self.given, self.at(place)
        if self.is_another_door(place):
            return replace(self, namespace=given.namespace or place.namespace)
        is_other_context = bool(given.context) and given.context != place.context
        return replace(
            noted, namespace=given.namespace or place.namespace, context=given.context or place.context,
            server=given.server or place.server,
            kubeconfig=self.kubeconfig if is_other_context else noted.kubeconfig,
        )  # fmt: skip


def place_options(function: Function) -> Function:
    """`--target`, `--context`, `--namespace`, `--server` as the one argument `place`."""
    import functools

    @functools.wraps(function)
    def called(*args: Any, target: Any, context: Any, namespace: Any, server: Any, **kwargs: Any) -> Any:
        place = PlaceOptions(target=target, context=context, namespace=namespace, server=server)
        return function(*args, place=place, **kwargs)

    for option in (
        click.option("--server", metavar="URL", help="Argo Server, with --target argo-server; else $ARGO_SERVER."),
        click.option("--namespace", metavar="NAME", help="Namespace on the cluster; else the context's."),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig; else its current one."),
        click.option(
            "--target", metavar="PLACE",
            help="Where: local, kubernetes or argo-server. By default $ARGOSY_TARGET, else the configuration file, "
            "else local: this machine.",
        ),
    ):  # fmt: skip
        called = option(called)
    return called  # type: ignore[return-value]


def resolve_target(options: PlaceOptions, environ: Mapping[str, str] = os.environ) -> Target:
    """Option, then environment, then file, then local. Raises BadInput with every fault."""
    path = config_path(environ)
    file = _read_file(path)
    given = [
        ("--target", options.target), ("ARGOSY_TARGET", environ.get("ARGOSY_TARGET")), (str(path), file.get("target")),
    ]  # fmt: skip
    origin, name = next(((where, value) for where, value in given if value), ("the default", "local"))
    if name not in TARGETS:
        raise BadInput("UnknownTarget", f"{origin} is {name!r}", "use local, kubernetes or argo-server")
    named = [
        option
        for option, value in (
            ("--context", options.context),
            ("--namespace", options.namespace),
            ("--server", options.server),
        )
        if value
    ]
    if name == "local" and named:
        fix = "add --target kubernetes or --target argo-server"
        raise BadInput("Usage", f"{', '.join(named)} says where on a cluster, but the target is local", fix)
    if name == "kubernetes" and options.server:
        raise BadInput("Usage", "--server is for --target argo-server", "leave it out")
    if name == "argo-server" and options.context:
        raise BadInput("Usage", "--context is for --target kubernetes", "leave it out")
    return _target(str(name), origin, options, file, environ)


def _target(
    name: str, origin: str, options: PlaceOptions, file: Mapping[str, Any], environ: Mapping[str, str]
) -> Target:
    kubernetes, argo = file.get("kubernetes") or {}, file.get("argo_server") or {}
    skip = environ.get("ARGO_INSECURE_SKIP_VERIFY", str(argo.get("insecure_skip_verify", ""))).lower() == "true"
    common = Target(
        name, origin, kubeconfig=_path(kubernetes.get("kubeconfig")), ca_file=_path(argo.get("ca_file")),
        skip_verify=skip, given=options,
        instance_id=environ.get("ARGO_INSTANCEID", str(file.get("instance_id", ""))),
        token_given=environ.get("ARGO_TOKEN", ""), token_file=_path(argo.get("token_file")),
    )  # fmt: skip
    if name == "kubernetes":
        return replace(
            common, context=options.context or str(kubernetes.get("context", "")),
            namespace=options.namespace or str(kubernetes.get("namespace", "")),
            # What the environment names is closer than a file.
            kubeconfig="" if environ.get("KUBECONFIG") else common.kubeconfig,
        )  # fmt: skip
    namespace = options.namespace or environ.get("ARGO_NAMESPACE") or str(argo.get("namespace", ""))
    return replace(common, server=options.server or _server(environ) or str(argo.get("url", "")), namespace=namespace)


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's configuration file."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
    return Path(base) / "argosy" / "config.yaml"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput("BadConfiguration", f"cannot read {path}: {error}", "correct or remove it") from error
    import yaml

    try:
        value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    except yaml.YAMLError as error:
        raise BadInput("BadConfiguration", f"{path} is no YAML: {error}", "correct or remove it") from error
    problems = list(_faults(path, value))
    if problems:
        raise BadInput("BadConfiguration", f"{path} cannot be used", "correct what is listed", problems=problems)
    return dict(value)


def _faults(path: Path, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(str(path), "is not a mapping", "write `target: kubernetes`")
        return
    for key, item in value.items():
        if key in _FILE_KEYS:
            if not isinstance(item, dict):
                yield Problem(f"{path} {key}", "is not a section", f"it holds {', '.join(_FILE_KEYS[key])}")
                continue
            for inner, text in item.items():
                if inner not in _FILE_KEYS[key]:
                    yield Problem(
                        f"{path} {key}.{inner}", "unknown field", f"it is one of {', '.join(_FILE_KEYS[key])}"
                    )
                elif not isinstance(text, bool if inner == "insecure_skip_verify" else str):
                    yield Problem(f"{path} {key}.{inner}", f"is {text!r}", "write a text, or true for a switch")
        elif key not in ("target", "instance_id"):
            yield Problem(
                f"{path} {key}", "unknown field", f"it is one of target, instance_id, {', '.join(_FILE_KEYS)}"
            )
        elif not isinstance(item, str):
            yield Problem(f"{path} {key}", f"is {item!r}", "write a name")


def _address(url: str) -> str:
    """To compare: a scheme may be left out."""
    return f"{'' if '://' in url or not url else 'https://'}{url.rstrip('/')}"


def _server(environ: Mapping[str, str]) -> str:
    """As the `argo` command reads it: host:port, TLS unless ARGO_SECURE says otherwise."""
    server = environ.get("ARGO_SERVER", "")
    if not server or "://" in server:
        return server
    scheme = "http" if environ.get("ARGO_SECURE", "true").lower() == "false" else "https"
    return f"{scheme}://{server}{environ.get('ARGO_BASE_HREF', '').rstrip('/')}"


def _token(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise BadInput("NoToken", f"cannot read {path}: {error.strerror}", "correct argo_server.token_file") from error
    except ValueError as error:
        raise BadInput("NoToken", f"{path} holds no text", "correct argo_server.token_file") from error


def _path(value: Any) -> str:
    return os.path.expanduser(str(value)) if value else ""
