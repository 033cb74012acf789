"""Which place a command acts on, and how it gets in there."""

from pathlib import Path

import pytest

from components.errors import BadInput
from pipelines.cli.targets import PlaceOptions, resolve_target


def environment(folder: Path, file: str = "", **variables: str) -> dict[str, str]:
    if file:
        path = folder / "argosy" / "config.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(file)
    return {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **variables}


def test_option_beats_environment_beats_file_beats_this_machine(tmp_path: Path) -> None:
    assert resolve_target(PlaceOptions(), environment(tmp_path)).name == "local"
    around = environment(tmp_path, "target: kubernetes\n")
    assert resolve_target(PlaceOptions(), around).name == "kubernetes"
    around["ARGOSY_TARGET"] = "argo-server"
    assert resolve_target(PlaceOptions(), around).name == "argo-server"
    target = resolve_target(PlaceOptions(target="local"), around)
    assert (target.name, target.origin) == ("local", "--target")


def test_the_file_says_where_the_clusters_are_and_the_environment_is_closer(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("Bearer abc\n")
    file = f"""
target: kubernetes
instance_id: team
kubernetes: {{context: dev, namespace: ml, kubeconfig: ~/kube}}
argo_server: {{url: "https://argo:2746", namespace: ml2, token_file: {token}, insecure_skip_verify: true}}
"""
    by_file = resolve_target(PlaceOptions(), environment(tmp_path, file))
    assert (by_file.context, by_file.namespace, by_file.instance_id) == ("dev", "ml", "team")
    assert by_file.kubeconfig.endswith("/kube")
    named = resolve_target(PlaceOptions(context="prod", namespace="x"), environment(tmp_path, file, KUBECONFIG="/k"))
    assert (named.context, named.namespace, named.kubeconfig) == ("prod", "x", "")

    server = resolve_target(PlaceOptions(target="argo-server"), environment(tmp_path, file))
    assert (server.server, server.namespace, server.token, server.skip_verify) == (
        "https://argo:2746", "ml2", "Bearer abc", True,
    )  # fmt: skip
    by_argo = environment(
        tmp_path,
        file,
        ARGO_SERVER="argo.example:2746",
        ARGO_TOKEN="Bearer xyz",
        ARGO_NAMESPACE="n",
        ARGO_SECURE="false",
    )
    closer = resolve_target(PlaceOptions(target="argo-server"), by_argo)
    assert (closer.server, closer.namespace, closer.token) == ("http://argo.example:2746", "n", "Bearer xyz")


def test_every_fault_of_the_file_is_listed(tmp_path: Path) -> None:
    around = environment(tmp_path, "targt: kubernetes\nkubernetes: {contxt: dev, namespace: 7}\nargo_server: x\n")

    with pytest.raises(BadInput) as raised:
        resolve_target(PlaceOptions(), around)

    where = [problem.where.rpartition(" ")[2] for problem in raised.value.problems]
    assert where == ["targt", "kubernetes.contxt", "kubernetes.namespace", "argo_server"]
    with pytest.raises(BadInput, match="is no YAML"):
        resolve_target(PlaceOptions(), environment(tmp_path, "a: ["))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PlaceOptions(target="cloud"), "--target is 'cloud'; use local, kubernetes or argo-server"),
        (PlaceOptions(namespace="ml"), "--namespace says where on a cluster, but the target is local"),
        (PlaceOptions(target="kubernetes", server="x"), "--server is for --target argo-server"),
        (PlaceOptions(target="argo-server", context="x"), "--context is for --target kubernetes"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, options: PlaceOptions, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        resolve_target(options, environment(tmp_path))
    assert words in str(raised.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", "tok\u00e9n".encode()])
def test_a_token_file_that_holds_no_token_is_bad_input(tmp_path: Path, content: bytes) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    file = f"argo_server: {{url: 'https://argo:2746', token_file: {token}}}\n"

    with pytest.raises(BadInput, match=r"argo_server\.token_file"):
        resolve_target(PlaceOptions(target="argo-server"), environment(tmp_path, file)).connect()


def test_a_token_file_that_is_not_there_keeps_nobody_from_other_places(tmp_path: Path) -> None:
    file = f"argo_server: {{url: 'https://argo:2746', token_file: {tmp_path}/none}}\n"

    assert resolve_target(PlaceOptions(), environment(tmp_path, file)).is_local
    assert resolve_target(PlaceOptions(target="kubernetes"), environment(tmp_path, file)).name == "kubernetes"
    with pytest.raises(BadInput, match=r"argo_server\.token_file"):
        resolve_target(PlaceOptions(target="argo-server"), environment(tmp_path, file)).connect()


def test_an_argo_server_that_nobody_named_is_asked_for(tmp_path: Path) -> None:
    target = resolve_target(PlaceOptions(target="argo-server"), environment(tmp_path))
    with pytest.raises(BadInput, match=r"set --server, ARGO_SERVER, or argo_server\.url"):
        target.connect()
