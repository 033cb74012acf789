"""A long stage's progress reaches the file that Argo reads, and nothing else."""

from pathlib import Path

from components.runtime.progress import tell_progress


def test_progress_is_written_as_argo_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    tell_progress(3, 10, environ={"ARGO_PROGRESS_FILE": str(file)})
    tell_progress(4, 10, environ={"ARGO_PROGRESS_FILE": str(file)})

    assert file.read_text() == "4/10\n"
    assert list(tmp_path.iterdir()) == [file]


def test_what_argo_could_not_show_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    for done, total in ((11, 10), (-1, 10), (0, 0)):
        tell_progress(done, total, environ={"ARGO_PROGRESS_FILE": str(file)})

    assert not file.exists()


def test_a_folder_that_is_not_there_stops_no_stage(tmp_path: Path) -> None:
    tell_progress(1, 2, environ={"ARGO_PROGRESS_FILE": str(tmp_path / "none" / "progress")})
    tell_progress(1, 2, environ={})
