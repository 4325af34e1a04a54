"""GGUF models through llama.cpp (`xllamacpp`, prebuilt wheels), inside this process."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linly_pipeline.errors import ConfigError, ModelError, StageError
from linly_pipeline.machine import usable_cores
from linly_pipeline.models import check_file, locate
from linly_pipeline.registry import About
from linly_pipeline.stages.llm.chat import SYSTEM_PROMPT, ChatMessage, ChatStage, roles
from linly_pipeline.stages.llm.kv_cache import kv_bytes_per_token
from linly_pipeline.workers import Worker

if TYPE_CHECKING:
    from linly_profiling import Span
    from xllamacpp import Server

    from linly_pipeline.turn import Turn

# An utterance-sized prompt of the default model fits many times over.
CONTEXT_TOKENS = 2048

# A question is some twenty tokens: more threads than this have nothing to share.
MOST_PROMPT_THREADS = 4


class Chat(ChatStage):
    """A chat model that answers token by token. The KV cache of the common beginning is kept between turns.

    The default model, SmolLM2-135M, speaks English only and invents on anything hard: small talk. Give a bigger
    GGUF file for more.

    Args:
        model: a name of the model store, or a .gguf file.
        system: the system prompt.
        max_tokens: longest answer; it ends with a whole sentence.
        temperature: 0 always takes the likeliest token.
        repeat_penalty: above 1 keeps small models out of loops.
        context_tokens: size of the context.
        threads: that write the answer; half the cores if None. They spin while they wait for each other, so on
            a busy machine more of them make everything slower (`docs/configuration.md` has the figures).
        prompt_threads: that read the prompt, in a short burst; all cores up to 4 if None.

    Raises:
        ConfigError: `xllamacpp` is not installed.
        ModelError: the weights are missing or broken.
    """

    name = "llama.cpp"
    about = About(
        "GGUF chat models (SmolLM2-135M-Instruct by default) through llama.cpp",
        modules=("xllamacpp",),
        extra="llama-cpp",
        models=("smollm2-135m-instruct",),
        licence="MIT; default weights Apache-2.0",
        languages=("en",),
        streaming="token",
    )

    def __init__(
        self,
        model: str | PathLike[str] = "smollm2-135m-instruct",
        *,
        system: str = SYSTEM_PROMPT,
        max_tokens: int = 96,
        temperature: float = 0.0,
        repeat_penalty: float = 1.1,
        context_tokens: int = CONTEXT_TOKENS,
        threads: int | None = None,
        prompt_threads: int | None = None,
    ) -> None:
        super().__init__(system=system, max_tokens=max_tokens, context_tokens=context_tokens)
        self.model = model
        self.temperature = temperature
        self.repeat_penalty = repeat_penalty
        self.threads = threads or max(1, usable_cores() // 2)
        self.prompt_threads = prompt_threads or min(usable_cores(), MOST_PROMPT_THREADS)
        self._worker = Worker(f"linly-{self.name}")
        self._server: Server | None = None
        self._kv_bytes_per_token: int | None = None

    async def load(self) -> None:
        if self._server is None:
            self._server = await self._worker.call(None, self._load)

    async def close(self) -> None:
        holder = [self._server]
        self._server = None
        await self._worker.call(None, holder.clear)  # its destructor waits for its main loop
        await self._worker.close()

    async def tokens(self, messages: list[ChatMessage], turn: Turn) -> AsyncIterator[str | None]:
        def produce(emit: Callable[[str | None], bool]) -> None:
            with turn.span("llm.generate", model=Path(self.model).stem, roles=roles(messages)) as span:
                self._generate(messages, turn.seed, emit, span)

        async for piece in self._worker.stream(turn, produce, ahead=self.max_tokens + 1):
            yield piece

    def _load(self) -> Server:
        path = _model_file(self.model)
        try:
            import xllamacpp
        except ImportError as error:
            raise ConfigError.missing_extra("llama.cpp", "llama-cpp", "xllamacpp") from error
        try:
            server = xllamacpp.Server(self._parameters(xllamacpp, path))
        except RuntimeError as error:
            raise ModelError(f"'{path}' does not load as a GGUF model: {error}") from error
        self._warm_up(server)
        self._kv_bytes_per_token = kv_bytes_per_token(path)
        return server

    def _parameters(self, xllamacpp: Any, path: Path) -> Any:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = self.context_tokens
        parameters.cpuparams.n_threads = self.threads
        parameters.cpuparams_batch.n_threads = self.prompt_threads
        parameters.verbosity = -1
        # The library always listens on a loopback port as well. Nobody is to use it: a random key, no pages.
        parameters.api_keys = [secrets.token_urlsafe(32)]
        parameters.ui = False
        parameters.endpoint_slots = False
        # The slot itself keeps the last conversation; its second-level cache would take up to 8 GB.
        parameters.cache_ram_mib = 0
        return parameters

    def _warm_up(self, server: Server) -> None:
        """Evaluate the system prompt once, so that the first turn finds it in the KV cache."""
        server.handle_chat_completions(
            {
                "messages": [
                    {"role": "system", "content": self.system},
                    {"role": "user", "content": "Hi"},
                ],
                "max_tokens": 1,
            },
            lambda chunk: None,
        )

    def _generate(
        self, messages: list[ChatMessage], seed: int, emit: Callable[[str | None], bool], span: Span
    ) -> None:
        assert self._server is not None, "load() comes before run()"
        failures: list[str] = []

        def take(chunk: dict[str, Any]) -> bool:
            """True stops the generation."""
            if "error" in chunk:
                failures.append(str(chunk["error"].get("message", chunk["error"])))
                return True
            timings = chunk.get("timings")
            if timings:
                span.set(
                    prompt_tokens=timings["cache_n"] + timings["prompt_n"],
                    cached_tokens=timings["cache_n"],
                    tokens=timings["predicted_n"],
                )
            if not chunk["choices"]:
                return False
            choice = chunk["choices"][0]
            if choice["finish_reason"] == "length":
                return not emit(None)
            piece = choice["delta"].get("content")
            if not piece:
                return False
            self._mark_token(span, timings)
            return not emit(piece)

        self._server.handle_chat_completions(self._request(messages, seed), take)
        if failures:
            raise StageError(f"stage {self.name!r} failed: {failures[0]}", stage=self.name)

    def _mark_token(self, span: Span, timings: dict[str, Any] | None) -> None:
        """A token, and the bytes in the KV cache with it."""
        if timings and self._kv_bytes_per_token:
            tokens = timings["cache_n"] + timings["prompt_n"] + timings["predicted_n"]
            span.mark("token", tokens * self._kv_bytes_per_token)
            span.trace.counter("kv_cache.bytes", tokens * self._kv_bytes_per_token, "llm")
        else:
            span.mark("token")

    def _request(self, messages: list[ChatMessage], seed: int) -> dict[str, Any]:
        return {
            "messages": messages,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "repeat_penalty": self.repeat_penalty,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            "timings_per_token": True,
            "cache_prompt": True,
        }

    def __repr__(self) -> str:
        return f"Chat({str(self.model)!r}, max_tokens={self.max_tokens}, temperature={self.temperature})"


def _model_file(model: str | PathLike[str]) -> Path:
    path = Path(model)
    if path.suffix.lower() == ".gguf":
        check_file(path, kind="gguf")
        return path
    return locate(str(model))
