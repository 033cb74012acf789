"""The words hold: links exist, every command is in the README, the stages stand in the same order everywhere."""

import re
import subprocess
import sys
from pathlib import Path

import components

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "build" for part in path.relative_to(ROOT).parts)
)


def test_relative_links_exist() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")

    assert broken == []


def anchors(page: Path) -> set[str]:
    """What a heading can be reached by, as Git hosts spell it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_into_a_page_lead_to_a_heading() -> None:
    broken = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if anchor not in anchors(page.parent / target if target else page):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")

    assert broken == []


def test_every_command_is_in_the_readme() -> None:
    shown = subprocess.run(
        [sys.executable, "pipelines/train.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    commands = re.findall(r"^  ([a-z]+) ", shown.split("Commands:")[1].split("Exit codes:")[0], flags=re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(commands) >= 14
    assert [name for name in commands if f"`{name}" not in readme] == []


def test_the_stages_stand_in_the_readme_in_their_order() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    places = [readme.index(f"**{stage}**") for stage in components.STAGES]

    assert places == sorted(places)


def test_the_tree_in_the_architecture_page_names_every_component() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = sorted(path.parent.name for path in (ROOT / "components").glob("*/__init__.py"))

    assert [name for name in folders if f"`{name}" not in page and f" {name} " not in page] == []
