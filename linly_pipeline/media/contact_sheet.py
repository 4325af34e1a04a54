"""Many frames as one picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from linly_pipeline.errors import MediaError
from linly_pipeline.packets import UInt8Array

GAP = 4  # pixels between pictures
PAPER, INK = (255, 255, 255), (40, 40, 40)
LABEL_SHARE = 14  # a label is 1/14 of the picture's height, but never too small to read
MIN_LABEL = 12


def contact_sheet(
    frames: UInt8Array | Iterable[UInt8Array], columns: int, labels: Sequence[str] | None = None
) -> UInt8Array:
    """Lay frames out in rows, left to right, on white.

    Args:
        frames: `[n, height, width, 3]` uint8 RGB, or pictures of one size; at least one.
        columns: pictures in a row; fewer if there are fewer frames.
        labels: a line below each picture; too long ones are cut.

    Returns:
        `[H, W, 3]` uint8 RGB.

    Raises:
        MediaError: no frames, frames of different sizes, columns below 1, or not one label a frame.
    """
    from PIL import Image, ImageDraw, ImageFont

    pictures = list(frames)
    _check(pictures, columns, labels)
    height, width = pictures[0].shape[:2]
    size = max(MIN_LABEL, height // LABEL_SHARE)
    line = size + size // 2 if labels is not None else 0
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (GAP + columns * (width + GAP), GAP + rows * (height + line + GAP)), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        x, y = GAP + column * (width + GAP), GAP + row * (height + line + GAP)
        sheet.paste(Image.fromarray(picture), (x, y))
        if labels is not None:
            text = _fitting(labels[index], width, font.getlength)
            draw.text((x + width // 2, y + height + line // 2), text, INK, font, anchor="mm")
    return np.asarray(sheet)


def _check(pictures: Sequence[UInt8Array], columns: int, labels: Sequence[str] | None) -> None:
    shapes = {picture.shape for picture in pictures}
    if not pictures or columns < 1:
        raise MediaError(f"a contact sheet of {len(pictures)} frames in {columns} columns is not possible")
    if len(shapes) > 1:
        raise MediaError(f"the frames of a contact sheet differ in size: {sorted(shapes)}; resize them first")
    if labels is not None and len(labels) != len(pictures):
        raise MediaError(f"{len(labels)} labels came for {len(pictures)} frames; give one each")


def _fitting(text: str, width: int, length: Callable[[str], float]) -> str:
    """The text, or as much of it as fits, with an ellipsis."""
    if length(text) <= width:
        return text
    while text and length(text + "…") > width:
        text = text[:-1]
    return text + "…"
