"""The plug-in point: a stage turns a stream of packets into another stream, once a turn."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Packet

if TYPE_CHECKING:
    from linly_pipeline.turn import Turn

In = TypeVar("In", bound=Packet)
Out = TypeVar("Out", bound=Packet)


class Stage(Generic[In, Out]):
    """One step of a pipeline. Subclass as `class Shout(Stage[Text, Text])` and write `run`.

    One instance serves every turn and every session of its pipeline, also at the same time: what belongs to a
    turn lives in local variables of `run`, what belongs to the model on `self`.

    Attributes:
        name: shown in errors, traces and reports; the class's name in lower case unless set.
        kind: the role, "asr", "llm", "tts", "motion", "face", or "custom".
        lookahead_ms: media that the stage holds back before it can answer, by its nature.
        itemwise: True if all output of an input unit comes before the next one is taken. A fallback can then
            take over in the middle of a stream.
    """

    name: str = ""
    kind: ClassVar[str] = "custom"
    lookahead_ms: float = 0.0
    itemwise: bool = False
    accepts: type[Packet]
    gives: type[Packet]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.name:
            cls.name = cls.__name__.lower()
        for base in getattr(cls, "__orig_bases__", ()):
            args = get_args(base)
            origin = get_origin(base)
            is_stage = isinstance(origin, type) and issubclass(origin, Stage)
            if is_stage and len(args) == 2 and all(isinstance(arg, type) for arg in args):
                cls.accepts, cls.gives = args

    @property
    def row(self) -> str:
        """What a trace calls the stage's row: its role, or its name where it plays none of the known ones."""
        return self.name if self.kind == "custom" else self.kind

    async def load(self) -> None:
        """Get ready: load weights, warm up. Called once before the first turn; a second call does nothing."""

    async def close(self) -> None:
        """Give back what `load` took. The stage may be loaded again."""

    def units(self, stream: AsyncIterator[In]) -> AsyncIterator[In]:
        """The stream cut into pieces that each can be given to another engine on its own."""
        return stream

    def run(self, stream: AsyncIterator[In], turn: Turn) -> AsyncIterator[Out]:
        """Read `stream` to its end and yield the results as they come. Usually an async generator.

        Cancelling the turn raises `asyncio.CancelledError` at the current `await`; let it pass.
        """
        raise NotImplementedError(f"stage {self.name!r} has no run()")


class FunctionStage(Stage[Packet, Packet]):
    """A stage made from a function by `@stage`."""

    def __init__(self, function: Callable[..., Any], accepts: type[Packet], gives: type[Packet]) -> None:
        self.name = getattr(function, "__name__", "function")
        self.accepts = accepts
        self.gives = gives
        self.itemwise = not inspect.isasyncgenfunction(function)
        self._function = function

    def run(self, stream: AsyncIterator[Packet], turn: Turn) -> AsyncIterator[Packet]:
        if inspect.isasyncgenfunction(self._function):
            whole: AsyncIterator[Packet] = self._function(stream, turn)
            return whole
        return self._each(stream)

    async def _each(self, stream: AsyncIterator[Packet]) -> AsyncIterator[Packet]:
        async for item in stream:
            result = self._function(item)
            if inspect.isawaitable(result):
                result = await result
            if result is not None:
                yield result

    def __repr__(self) -> str:
        return f"@stage {self.name}"


def stage(function: Callable[..., Any]) -> FunctionStage:
    """Make a stage from an annotated function.

    Either `def shout(piece: Text) -> Text` (also `async def`; called for every item; None drops it), or an async
    generator `async def shout(stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]`.

    Raises:
        ConfigError: the first parameter or the result has no packet type as its annotation.
    """
    # `Turn` and `AsyncIterator` are often imported for type checkers only.
    hints = get_type_hints(function, localns={"Turn": Any, "AsyncIterator": AsyncIterator})
    parameters = list(inspect.signature(function).parameters)
    accepts = _packet_type(hints.get(parameters[0])) if parameters else None
    gives = _packet_type(hints.get("return"))
    if accepts is None or gives is None:
        name = getattr(function, "__name__", repr(function))
        raise ConfigError(
            f"@stage {name}: annotate the first parameter and the result with packet types,"
            f" like 'def {name}(piece: Text) -> Text'"
        )
    return FunctionStage(function, accepts, gives)


def _packet_type(hint: Any) -> type[Packet] | None:
    """The packet class in `Text`, `Text | None`, `AsyncIterator[Text]` or `Awaitable[Text]`."""
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, Packet):
            return candidate
    return None
