"""One request: its ID, its trace, what was asked, what was said, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from linly_profiling import Trace

from linly_pipeline.errors import TurnCancelled
from linly_pipeline.packets import Packet, Speech, Text

if TYPE_CHECKING:
    from linly_profiling import Report, Span

    from linly_pipeline.sinks import Played
    from linly_pipeline.stage import Stage

log = logging.getLogger(__name__)

Outcome = Literal["running", "ok", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation's history."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Utterance:
    """A fragment that was spoken, and when in the turn's media time."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Takeover:
    """A fallback engine took over, or a call was tried again.

    Attributes:
        stage: the policy's name.
        engine: what failed.
        successor: what took over; the same engine where it was tried again.
        error: what had happened, as a sentence.
        error_type: name of the exception's class: all that the trace keeps of it.
    """

    stage: str
    engine: str
    successor: str
    error: str
    error_type: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a turn is.

    Attributes:
        activity: what the furthest stage that has begun does, like "tts".
        media_s: seconds of the answer that reached the sink.
        fraction: 0..1, never falls, 1 only at the end; None while the answer's length cannot be guessed.
    """

    activity: str
    media_s: float
    fraction: float | None


class Turn:
    """One request of a session. Stages get it as their second argument; `await turn` waits for its end.

    Attributes:
        id: the request ID that every record of the trace carries.
        seed: for stages that use randomness, so that a turn can be repeated.
        trace: everything measured in this turn.
        clock_ns: the clock of the trace and of all deadlines' figures.
        history: messages before this turn, oldest first.
        question: what the user said, as text; grows while it is recognised.
        reply: the answer, as text; grows while it is written.
        utterances: the fragments that were spoken, with their media times.
        outcome: "running", "ok", "cancelled" or "error".
        played: what the sink wrote or played; None until the end.
        takeovers: fallbacks and retries that happened.
    """

    def __init__(
        self,
        request_id: str,
        *,
        history: Sequence[Message] = (),
        seed: int = 0,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        on_progress: Callable[[Progress], None] | None = None,
        traceparent: str | None = None,
    ) -> None:
        self.trace = Trace(request_id, clock_ns=clock_ns, traceparent=traceparent)
        self.id = self.trace.request_id
        self.clock_ns = clock_ns
        self.seed = seed
        self.history = tuple(history)
        self.question = ""
        self.reply = ""
        self.utterances: list[Utterance] = []
        self.takeovers: list[Takeover] = []
        self.outcome: Outcome = "running"
        self.error: BaseException | None = None
        self.played: Played | None = None
        self._on_progress = on_progress
        self._progress = Progress("", 0.0, None)
        self._reply_is_whole = False
        self._spoken_characters = 0
        self._task: asyncio.Task[None] | None = None
        self._cancelling = False
        self._ended: asyncio.Event = asyncio.Event()

    # For stages

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[Span]:
        """Record the body of a `with` as a span of this turn, below the current one."""
        return self.trace.span(name, **attributes)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the turn began, by the trace's clock."""
        return (self.clock_ns() - self.trace.root.start_ns) / 1e9

    # For whoever asked

    async def wait(self) -> Turn:
        """Until the turn has ended.

        Raises:
            TurnCancelled: it was cancelled or superseded.
            LinlyError: the first failure.
        """
        await self._ended.wait()
        if self.outcome == "cancelled":
            raise TurnCancelled(f"turn {self.id} was cancelled")
        if self.error is not None:
            raise self.error
        return self

    def __await__(self) -> Generator[Any, None, Turn]:
        return self.wait().__await__()

    async def cancel(self) -> None:
        """Barge-in: stop everything and throw away what is on its way. Returns when the sink is silent."""
        if self._task is not None and not self._cancelling and self.outcome == "running":
            self._cancelling = True
            self._task.cancel()
        await self._ended.wait()

    async def ended(self) -> None:
        """Until the turn has ended, however it did."""
        await self._ended.wait()

    def report(self) -> Report:
        """Where the time went."""
        from linly_profiling import Report

        return Report.of(self.trace)

    def heard(self) -> str:
        """The part of the reply that the sink really played, cut at a word."""
        played_s = self.played.media_s if self.played else 0.0
        if self.outcome == "ok":
            return self.reply or "".join(utterance.text for utterance in self.utterances)
        return "".join(_heard_part(utterance, played_s) for utterance in self.utterances).strip()

    # For the runner

    def run_as(self, task: asyncio.Task[None]) -> None:
        """The task that runs the turn; `cancel` cancels it."""
        self._task = task
        task.add_done_callback(self._task_done)

    def observe_input(self, stage: Stage[Any, Any], item: Packet, recognised: bool) -> None:
        """Note what goes into a stage; `recognised` tells that the question comes from an ASR stage."""
        if stage.kind == "llm" and not recognised and isinstance(item, Text):
            self.question += item.text

    def observe_output(self, stage: Stage[Any, Any], item: Packet) -> None:
        """Note what comes out of a stage."""
        if isinstance(item, Text):
            if stage.kind == "asr":
                self.question += item.text
            elif stage.kind == "llm":
                self.reply += item.text
        elif isinstance(item, Speech) and stage.kind == "tts":
            self.utterances.append(Utterance(item.text, item.audio.start_s, item.audio.end_s))
            self._spoken_characters += len(item.text)
        self._tell(stage.row, self._progress.media_s)

    def observe_reply_end(self) -> None:
        self._reply_is_whole = True

    def observe_played(self, media_s: float) -> None:
        self._tell("playing", media_s)

    def end(self, outcome: Outcome, error: BaseException | None = None) -> None:
        """Set the outcome, close the trace and wake whoever waits."""
        self.outcome = outcome
        self.error = error
        self.trace.close(outcome)
        self._ended.set()
        if outcome == "ok":
            self._emit(Progress("done", self.played.media_s if self.played else 0.0, 1.0))

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """Nobody may wait for ever: not if the task was cancelled before its first step, not after a bug."""
        if self.outcome == "running":
            self.end("cancelled")
        if not task.cancelled() and (error := task.exception()):
            self.error = self.error or error
            self.outcome = "error"

    def _tell(self, activity: str, media_s: float) -> None:
        self._emit(Progress(activity, media_s, self._fraction(media_s)))

    def _fraction(self, media_s: float) -> float | None:
        """Media that left, over the media that the whole reply will take at the pace so far."""
        before = self._progress.fraction
        if not (self._reply_is_whole and self._spoken_characters and self.utterances):
            return before
        spoken_share = min(1.0, self._spoken_characters / max(1, len(self.reply.strip())))
        guess = min(0.99, media_s / max(self.utterances[-1].end_s, 1e-9) * spoken_share)
        return max(guess, before or 0.0)

    def _emit(self, progress: Progress) -> None:
        self._progress = progress
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:  # the caller's code: it must not break or be blamed on a stage
            log.exception("on_progress raised; it is not called again in turn %s", self.id)
            self._on_progress = None


def _heard_part(utterance: Utterance, played_s: float) -> str:
    """The words of a fragment that end before `played_s`, if its words are spread evenly over its time."""
    if utterance.end_s <= played_s:
        return utterance.text
    share = (played_s - utterance.start_s) / max(utterance.end_s - utterance.start_s, 1e-9)
    if share <= 0:
        return ""
    cut = int(len(utterance.text) * share)
    head = utterance.text[:cut]
    if " " not in utterance.text:
        return head
    return head[: max(head.rfind(" "), 0)]
