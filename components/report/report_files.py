"""Writes a run's report into its storage."""

from datetime import datetime

from components.contracts.layout import report_key
from components.contracts.run_view import RunView
from components.report.html_page import render_html
from components.report.report import build_report
from components.storage.base import ObjectStore


def write_report(store: ObjectStore, view: RunView, *, now: datetime) -> str:
    """Write report.json, then report.html; the uri of the latter. A report written before is replaced."""
    report = build_report(view, now)
    page = report_key(view.run, suffix="html")
    store.replace(report_key(view.run, suffix="json"), report.to_bytes())
    store.replace(page, render_html(report).encode("utf-8", "replace"))
    return store.uri_of(page)
