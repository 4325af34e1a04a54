"""What moves on the terminal while a turn runs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from linly_pipeline.turn import Progress

_ACTIVITIES = {
    "": "loading models",
    "asr": "thinking",
    "llm": "writing the answer",
    "tts": "speaking",
    "motion": "moving",
    "face": "drawing",
    "playing": "making the video",
    "done": "done",
}


class TurnDisplay:
    """A bar on stderr, on a terminal only: loading, listening, then seconds of the answer made."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        console = Console(stderr=True)
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<20}"),
            BarColumn(),
            TextColumn("{task.fields[made]}"),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self._task = self._bars.add_task(_ACTIVITIES[""], total=None, made="")

    def show(self, progress: Progress) -> None:
        """Take a turn's progress, as `on_progress`."""
        self._bars.update(
            self._task,
            description=_ACTIVITIES.get(progress.activity, progress.activity),
            total=None if progress.fraction is None else 1.0,
            completed=progress.fraction or 0.0,
            made=f"{progress.media_s:.1f} s" if progress.media_s else "",
        )

    def __enter__(self) -> Self:
        self._bars.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.__exit__(kind, error, traceback)
