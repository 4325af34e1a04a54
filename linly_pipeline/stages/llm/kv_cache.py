"""How much memory one token takes in the KV cache of a language model."""

from __future__ import annotations

from pathlib import Path

from linly_pipeline.models.formats import gguf_numbers

_HALF_PRECISION_BYTES = 2  # llama.cpp keeps keys and values as 16-bit floats unless told otherwise


def kv_bytes_per_token(path: Path) -> int | None:
    """Bytes of keys and values that one token adds, over all layers; None where the file does not tell.

    layers x KV heads x (key length + value length) x 2 bytes, by the names of
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    numbers = {key.partition(".")[2]: value for key, value in gguf_numbers(path).items()}
    layers, heads = numbers.get("block_count"), numbers.get("attention.head_count")
    width = numbers.get("embedding_length")
    if not layers or not heads or not width:
        return None
    kv_heads = numbers.get("attention.head_count_kv", heads)
    key_length = numbers.get("attention.key_length", width // heads)
    value_length = numbers.get("attention.value_length", width // heads)
    return layers * kv_heads * (key_length + value_length) * _HALF_PRECISION_BYTES
