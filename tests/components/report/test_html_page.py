"""report.html: self-contained, harmless whatever a worker printed, and it says what matters."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from components.contracts.run_view import RunView
from components.report.html_page import render_html
from components.report.report import RunReport, build_report
from components.report.report_files import write_report
from components.storage.local import LocalStore
from tests.components.report.views import (
    BEGIN,
    NOW,
    RUN,
    a_stage,
    a_step,
    bare_view,
    failed_view,
    succeeded_view,
)

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Elements, their attributes and the text of a page; every element must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("style", "title"):
            self.text += data


def page_of(view: RunView) -> Page:
    return Page(render_html(build_report(view, NOW)))


@pytest.mark.parametrize("view", [succeeded_view(), failed_view(), bare_view()], ids=["succeeded", "failed", "bare"])
def test_the_page_loads_nothing_and_runs_nothing(view: RunView) -> None:
    html = render_html(build_report(view, NOW))
    page = Page(html)

    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form", "a"})
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert not re.search(r"url\(|@import|https?://|src=|href=", html)
    policies = [attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_what_a_worker_printed_is_shown_as_text_and_nothing_else() -> None:
    html = render_html(build_report(failed_view(), NOW))

    assert "step 28 <loss> & more red" in Page(html).text
    assert "</pre><script>alert(1)</script>" in Page(html).text
    assert "<script" not in html
    assert "\x1b" not in html


def test_a_good_run_shows_its_checkpoints_with_level_and_reason() -> None:
    text = page_of(succeeded_view()).text

    assert "✓ Succeeded" in text
    assert "The run finished with step-60-term-2, verified (tensors)." in text
    assert "kept – one of the 3 newest verified" in text
    assert "deleted – 3 newer verified ones are kept" in text
    assert "model.safetensors: 3 NaN in lm_head" in text


def test_a_failed_run_opens_with_its_cause_and_the_next_action() -> None:
    text = page_of(failed_view()).text

    assert text.index("rank 1 was killed by SIGKILL") < text.index("Next: ") < text.index("Timeline")
    assert "python pipelines/train.py resume" in text
    assert "exit 90 · 18s" in text


def test_both_figures_and_a_bar_for_every_stage_are_there() -> None:
    page = page_of(succeeded_view())

    labels = [attributes["aria-label"] for tag, attributes in page.elements if tag == "svg"]
    assert labels == ["Loss by step", "Step time by step"]
    bars = [
        attributes["title"] or ""
        for _, attributes in page.elements
        if (attributes.get("class") or "").startswith("bar")
    ]
    assert "shard-plan Succeeded, 400ms" in bars
    assert "launch Succeeded, 36s" in bars
    assert "term 1: failed, 15s; rank 1 on node 1 was killed by SIGKILL" in bars


def test_many_shard_tasks_share_one_row() -> None:
    tasks = tuple(a_stage(f"shard-task-{index}", 1, 2) for index in range(64))

    text = page_of(succeeded_view(stages=tasks)).text

    assert "shard-task × 64" in text
    assert "shard-task-63" not in text


def test_a_long_run_stays_a_small_page() -> None:
    view = succeeded_view()
    steps = tuple(a_step(step, step) for step in range(1, 1001))
    gang = view.gangs[0].model_copy(update={"steps": steps, "attempts": view.gangs[0].attempts * 150})

    html = render_html(build_report(succeeded_view(gangs=(gang,)), NOW))

    assert len(html) < 400_000


def test_writing_twice_replaces_and_returns_the_page(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_report(store, failed_view(), now=BEGIN)

    uri = write_report(store, succeeded_view(), now=BEGIN + timedelta(seconds=50))

    assert uri == f"file://{tmp_path}/runs/{RUN}/report.html"
    assert "✓ Succeeded" in store.read(f"runs/{RUN}/report.html").decode()
    report = RunReport.from_bytes(store.read(f"runs/{RUN}/report.json"), where="report.json")
    assert report.generated_at == "2026-11-29T18:50:50.000Z"


def test_a_name_with_half_a_character_does_not_keep_the_page_from_being_written(tmp_path: Path) -> None:
    stage = a_stage("launch", 1, 2, message="file caf\udce9", reason="Odd")

    write_report(LocalStore(tmp_path), succeeded_view(stages=(stage,)), now=NOW)

    assert b"launch" in (tmp_path / "runs" / RUN / "report.html").read_bytes()
