"""The options that reduce a model's memory."""

from __future__ import annotations

from collections.abc import Container


def memory_options(arguments: Container[str], batch_size: int | None, dtype: str) -> list[str]:
    """Return the options that reduce memory and that a run does not use yet.

    `arguments` are the arguments of the model's adapter; a batch size of None is measured.
    """
    ways = [f"--batch-size below {batch_size}"] if batch_size and batch_size > 1 else []
    ways += ["--dtype bfloat16"] if dtype == "float32" else []
    return ways + (["--model-args max_pixels=N"] if "max_pixels" in arguments else [])
