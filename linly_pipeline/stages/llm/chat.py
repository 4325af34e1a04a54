"""What the chat models share: messages from the history, tokens out, a graceful end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import ClassVar, Literal, TypedDict

from linly_pipeline.packets import Text
from linly_pipeline.stage import Stage
from linly_pipeline.turn import Message, Turn

SYSTEM_PROMPT = "You are a helpful assistant. Answer in one or two short sentences."

SENTENCE_END = re.compile(r"""[.!?。！？…]["'”’)\]]*\s*$""")

# Characters of English a token; only used to keep far from the context's end.
CHARACTERS_A_TOKEN = 3

# Messages that are dropped together when the history no longer fits.
BLOCK = 8


class ChatMessage(TypedDict):
    """A message in the layout of the OpenAI API, which every engine here understands."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatStage(Stage[Text, Text]):
    """Base of the language models: the whole question in, tokens out. Subclasses write `tokens`.

    An answer that reaches `max_tokens` ends with a whole sentence, unless that one is longer than half of them.
    """

    kind: ClassVar[str] = "llm"

    def __init__(self, *, system: str, max_tokens: int, context_tokens: int) -> None:
        self.system = system
        self.max_tokens = max_tokens
        self.context_tokens = context_tokens

    def tokens(self, messages: list[ChatMessage], turn: Turn) -> AsyncIterator[str | None]:
        """The answer's tokens; None at the end if `max_tokens` cut it off."""
        raise NotImplementedError

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        question = "".join([piece.text async for piece in stream]).strip()
        if not question:
            return
        budget = (self.context_tokens - self.max_tokens) * CHARACTERS_A_TOKEN
        messages = conversation(self.system, turn.history, question, budget)
        async for text in whole_sentences(self.tokens(messages, turn), self.max_tokens):
            yield Text(text)


def conversation(
    system: str, history: Sequence[Message], question: str, budget_characters: int
) -> list[ChatMessage]:
    """System prompt, as much of the latest history as fits, and the question. Roles alternate.

    The oldest messages go in blocks, so that the prompt's beginning, whose KV cache can be used again, stays the
    same for several turns.
    """
    left = budget_characters - len(system) - len(question)
    start = 0
    while sum(len(message.text) for message in history[start:]) > left and start < len(history):
        start += BLOCK
    while start < len(history) and history[start].role == "assistant":
        start += 1  # an answer without its question
    messages: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
    for message in [*history[start:], Message("user", question)]:
        if messages and messages[-1]["role"] == message.role:
            messages[-1]["content"] += "\n" + message.text
        else:
            messages.append({"role": message.role, "content": message.text})
    return messages


async def whole_sentences(tokens: AsyncIterator[str | None], max_tokens: int) -> AsyncIterator[str]:
    """The tokens as they come; in the second half of those allowed a sentence at a time.

    So an answer that is cut off, which a None at its end tells, loses the sentence that was cut, if it began in
    the second half. A short answer streams freely.
    """
    held: list[str] = []
    count = 0
    async for token in tokens:
        if token is None:
            return
        count += 1
        held.append(token)
        if count <= max_tokens // 2 or SENTENCE_END.search("".join(held[-2:])):
            yield "".join(held)
            held.clear()
    if held:
        yield "".join(held)


def roles(messages: Iterable[ChatMessage]) -> str:
    """The roles as initials, "sua" for system, user, assistant: for traces, which hold no content."""
    return "".join(message["role"][0] for message in messages)
