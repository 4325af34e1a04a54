"""Finished requests as the pipeline's runner leaves them, on a clock that runs as fast as the test wants."""

from __future__ import annotations

from dataclasses import dataclass

from linly_profiling import Span, Trace
from trace_tools import MS, Clock

GB = 10**9
FPS = 25
TOKENS = 40
SENTENCES = 4
FRAMES = 25  # of one sentence


@dataclass
class Turn:
    """A question, answered by four sentences of a second each. Times are milliseconds from its start.

    Attributes:
        outcome: how it ends.
        slow: all work takes this many times as long.
        frame_ms: time to render a frame.
        av_offset_ms: sound to picture.
        gpu_bytes: most that is in use of a GPU with 100 GB.
        fallback: another voice took over.
    """

    outcome: str = "ok"
    slow: float = 1.0
    frame_ms: float = 20.0
    av_offset_ms: float = 10.0
    gpu_bytes: int = 50 * GB
    fallback: bool = False
    request_id: str = "turn-1"

    def run(self) -> Trace:
        """The whole request, closed."""
        self._clock = Clock()
        self._start_ns = self._clock.now_ns
        self.trace = Trace(self.request_id, clock_ns=self._clock)
        self.trace.root.set(gpu_memory_total_bytes=100 * GB, gpu_name="a GPU")
        self._asr()
        self._llm()
        self._tts()
        self._motion()
        self._face()
        self._sink()
        self._at(4000)
        self.trace.close(self.outcome)
        return self.trace

    def _at(self, ms: float) -> None:
        self._clock.now_ns = self._ns(ms)

    def _ns(self, ms: float) -> int:
        return self._start_ns + round(self.slow * ms * MS)

    def _stage(self, row: str, order: int, ready: float, first: float, busy: float, **attrs: object) -> Span:
        self._at(0)
        return self.trace.start(
            f"linly.stage {row}",
            None,
            True,
            stage=f"my {row}",
            row=row,
            order=order,
            first_in_ns=self._ns(ready),
            ready_ns=self._ns(ready),
            first_out_ns=self._ns(first),
            busy_ns=round(self.slow * busy * MS),
            wait_in_ns=round(self.slow * ready * MS),
            wait_out_ns=0,
            items_in=SENTENCES,
            items_out=SENTENCES,
            **attrs,
        )

    def _span(self, name: str, stage: Span, start: float, end: float, **attrs: object) -> None:
        self.trace.add_span(name, self._ns(start), self._ns(end), stage, "ok", **attrs)

    def _end(self, stage: Span, ms: float) -> None:
        self._at(ms)
        stage.end()

    def _asr(self) -> None:
        asr = self._stage("asr", 0, 1, 150, 149)
        self._span("whisper.transcribe", asr, 2, 149, audio_s=1.5)
        self._end(asr, 151)

    def _llm(self) -> None:
        llm = self._stage("llm", 1, 150, 250, 850)
        self._at(160)
        call = self.trace.start("llm.generate", llm, prompt_tokens=120, cached_tokens=100, tokens=TOKENS)
        for token in range(TOKENS):
            self._at(250 + 18 * token)
            call.mark("token", 1_000_000 + 40_000 * token)
        self._at(990)
        call.end()
        self._end(llm, 1000)

    def _tts(self) -> None:
        takeovers = [{"from": "loud voice", "to": "plain voice", "error": "StageError"}]
        tts = self._stage("tts", 2, 300, 500, 800, media_s=4.0, fallbacks=takeovers if self.fallback else [])
        self._at(310)
        self.trace.counter("queue.depth", 3, "tts")
        self._span("linly.queue.wait", tts, 310, 340, worker="voice", busy_with="turn turn-0")
        for number in range(SENTENCES):
            start = 340 + 210 * number
            self._span("tts.synthesise", tts, start, start + 200, characters=50)
            self._span("tts.vocoder", tts, start + 100, start + 190)
        self._at(400)
        self.trace.counter("memory.gpu.allocated", self.gpu_bytes - GB, "cuda:0")
        self.trace.counter("memory.gpu.used", self.gpu_bytes, "cuda:0")
        self._end(tts, 1200)

    def _motion(self) -> None:
        motion = self._stage("motion", 3, 500, 505, 20, media_s=4.0)
        self._at(600)
        self.trace.counter("queue.depth", 1, "motion")
        self._end(motion, 1210)

    def _face(self) -> None:
        length = FRAMES * self.frame_ms / self.slow
        busy = SENTENCES * length
        face = self._stage("face", 4, 505, 505 + length, busy, media_s=4.0, fps=FPS)
        for number in range(SENTENCES):
            start = 505 + number * max(length, 700)
            self._span("face.render", face, start, start + length, frames=FRAMES)
        self._end(face, 3900)

    def _sink(self) -> None:
        sink = self._stage("sink", 5, 1100, 1110, 40, media_s=4.0, av_offset_ms=self.av_offset_ms)
        for number in range(SENTENCES):
            self._span("mp4.write", sink, 1100 + 700 * number, 1110 + 700 * number)
        self._end(sink, 3990)
