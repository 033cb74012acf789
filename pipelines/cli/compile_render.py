"""`compile --as`: a render of a description, printed or written into a folder that is committed."""

from pathlib import Path

import click

from components.errors import BadInput
from pipelines.cli.options import Described


def render_files(source: Described, kind: str, *, tags_allowed: bool) -> dict[str, str]:
    """Text by file name. Raises BadInput with every fault."""
    from pipelines.renders_files import files_of

    config = source.config
    return files_of(
        render_objects(source, kind, tags_allowed=tags_allowed), kind=kind, experiment=config.experiment,
        model_version=config.model_version,
    )  # fmt: skip


def render_objects(source: Described, kind: str, *, tags_allowed: bool) -> list[dict[str, object]]:
    """The objects themselves. Raises BadInput with every fault."""
    from infra.local.client import home
    from pipelines.config import default_storage
    from pipelines.renders import rendered
    from pipelines.workflow import compile_manifest

    manifest = compile_manifest(source.config, storage=default_storage(home()))
    return rendered(manifest, source.config, kind=kind, tags_allowed=tags_allowed)


def write_render(source: Described, kind: str, *, out: Path | None, tags_allowed: bool) -> None:
    """Write the render into `out`; without one, print it. Files of others are left alone and named."""
    files = render_files(source, kind, tags_allowed=tags_allowed)
    _mention_missing_schedule(source, kind)
    if out is None or str(out) == "-":
        from pipelines.renders_files import KUSTOMIZATION

        click.echo("---\n".join(text for name, text in files.items() if name != KUSTOMIZATION), nl=False)
        return
    _write(out, files, source)


def _write(out: Path, files: dict[str, str], source: Described) -> None:
    from pipelines.cli.files import write_file
    from pipelines.renders_files import read_folder, require_same_owner

    folder = read_folder(out)
    require_same_owner(folder, files)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput("CannotWrite", f"cannot make {out}: {error.strerror}", "choose another place") from error
    changed = [name for name, text in files.items() if folder.texts.get(name) != text]
    for name in changed:  # the kustomization, which names the others, comes last
        write_file(out / name, files[name], overwrite=True)
    left_over = sorted(set(folder.texts) - set(files))
    for name in left_over:
        (out / name).unlink(missing_ok=True)
    told = [f"wrote {', '.join(changed)}" if changed else "nothing changed"]
    told += [f"removed {', '.join(left_over)}"] if left_over else []
    click.echo(f"{out}: render of {source.origin}: {'; '.join(told)}", err=True)
    if folder.strangers:
        click.echo(f"{out}: left alone, and not in the kustomization: {folder.strangers_named()}", err=True)


def _mention_missing_schedule(source: Described, kind: str) -> None:
    gitops = source.config.gitops
    if kind == "all" and not (gitops and gitops.schedules):
        click.echo("no CronWorkflow: gitops.schedules is not set", err=True)
