"""An ordered chain of stages whose types fit, checked when it is built."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Packet
from linly_pipeline.runner import Limits
from linly_pipeline.session import Session
from linly_pipeline.sinks import Sink
from linly_pipeline.source import Source
from linly_pipeline.stage import Stage

if TYPE_CHECKING:
    from linly_pipeline.turn import Progress, Turn

AnyStage = Stage[Any, Any]


class Pipeline:
    """Stages in order: what one gives, the next one takes.

    A session loads the models and unloads them when the last session has ended. `async with pipeline:` keeps
    them warm across sessions. `ask` and `say` are the synchronous form, for scripts and notebooks.

    Args:
        *stages: in the order that packets run through them.
        limits: deadlines of every turn.

    Raises:
        ConfigError: no stage, something that is no stage, two stages of one name, or neighbours that do not fit.
    """

    def __init__(self, *stages: AnyStage, limits: Limits | None = None) -> None:
        self.stages: tuple[AnyStage, ...] = stages
        self.limits = limits or Limits()
        _check_chain(stages)
        self._users = 0
        self._loading = asyncio.Lock()

    # Asynchronous

    def session(self, sink: Sink | None = None) -> Session:
        """A conversation whose answers go to `sink` (default: nowhere, but counted)."""
        return Session(self, sink)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.release()

    async def acquire(self) -> None:
        """Load every stage for the first user, in order: a model that is missing is reported at once."""
        async with self._loading:
            if self._users == 0:
                await self._load()
            self._users += 1

    async def release(self) -> None:
        """Close every stage after the last user."""
        async with self._loading:
            self._users -= 1
            if self._users == 0:
                await _close_all(self.stages)

    # Synchronous

    def ask(
        self,
        question: Source,
        out: str | PathLike[str] | Sink | None = None,
        *,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Turn:
        """Ask and wait for the answer, without async: `pipeline.ask("question.wav", out="answer.mp4")`.

        Works in notebooks too: it runs on a thread of its own. Models stay loaded until `close()`.
        """
        return self._sync(question, out, say=False, seed=seed, on_progress=on_progress)

    def say(
        self,
        text: Source,
        out: str | PathLike[str] | Sink | None = None,
        *,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Turn:
        """Read a text, or the .txt or .md file at a path, aloud; otherwise like `ask`."""
        return self._sync(text, out, say=True, seed=seed, on_progress=on_progress)

    def close(self) -> None:
        """Unload what the synchronous form has loaded. It loads again when needed."""
        from linly_pipeline.blocking import close

        close(self)

    def _sync(self, source: Source, out: str | PathLike[str] | Sink | None, **settings: Any) -> Turn:
        from linly_pipeline.blocking import run_turn

        return run_turn(self, source, out, **settings)

    @classmethod
    def from_config(cls, path: str | PathLike[str]) -> Pipeline:
        """Build the pipeline that a TOML file describes; see `docs/configuration.md`.

        Raises:
            ConfigError: says what in the file is wrong.
        """
        from linly_pipeline.config import load_pipeline

        return load_pipeline(path)

    # What a session needs to know

    def stages_for(self, packet: type[Packet], *, say: bool = False) -> tuple[AnyStage, ...]:
        """The part of the chain that a packet of this type runs through.

        Raises:
            ConfigError: no stage takes it.
        """
        start = self._after_llm() if say else 0
        for index in range(start, len(self.stages)):
            if issubclass(packet, self.stages[index].accepts):
                return self.stages[index:]
        takes = ", ".join(f"{stage.name} takes {stage.accepts.__name__}" for stage in self.stages)
        raise ConfigError(f"no stage of this pipeline takes {packet.__name__}: {takes}")

    def check_sink(self, sink: Sink) -> None:
        """Raises:
        ConfigError: the sink cannot take what the last stage gives.
        """
        gives = self.stages[-1].gives
        if not issubclass(gives, sink.accepts):
            takes = " or ".join(each.__name__ for each in sink.accepts)
            raise ConfigError(
                f"{type(sink).__name__} takes {takes}, but this pipeline ends with {self.stages[-1].name!r}"
                f" and gives {gives.__name__}"
            )

    def _after_llm(self) -> int:
        return max((index + 1 for index, stage in enumerate(self.stages) if stage.kind == "llm"), default=0)

    async def _load(self) -> None:
        loaded: list[AnyStage] = []
        try:
            for stage in self.stages:
                loaded.append(stage)
                await stage.load()
        except BaseException:
            await _close_all(loaded)
            raise

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(repr, self.stages))})"


async def _close_all(stages: Sequence[AnyStage]) -> None:
    """Close in reverse order; one that fails does not keep the others open."""
    failures: list[Exception] = []
    for stage in reversed(stages):
        try:
            await stage.close()
        except Exception as error:  # noqa: BLE001  a stage is somebody else's code; raised below
            failures.append(error)
    if failures:
        raise failures[0]


def _check_chain(stages: Sequence[object]) -> None:
    if not stages:
        raise ConfigError("a pipeline needs at least one stage")
    names: set[str] = set()
    before: AnyStage | None = None
    for stage in stages:
        if not isinstance(stage, Stage):
            hint = ": call it, or decorate the function with @stage" if callable(stage) else ""
            raise ConfigError(f"{stage!r} is not a stage{hint}")
        if not hasattr(stage, "accepts") or not hasattr(stage, "gives"):
            raise ConfigError(
                f"stage {stage.name!r} does not say its types: subclass Stage[Text, Text], or the like"
            )
        if stage.name in names:
            raise ConfigError(f"two stages are named {stage.name!r}: set 'name' on one of them")
        if before is not None and not issubclass(before.gives, stage.accepts):
            raise ConfigError(
                f"{stage.name!r} takes {stage.accepts.__name__}, but {before.name!r} before it gives"
                f" {before.gives.__name__}"
            )
        names.add(stage.name)
        before = stage
