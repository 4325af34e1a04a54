"""A talking head from a text and one photo.

    python examples/talking_head.py
    python examples/talking_head.py --text "Welcome to our lab." --portrait me.jpg --output welcome.mp4

The photo is the demo's astronaut unless you give one. Look at the video, and at its subtitles beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from linly_pipeline import Hibari, LinlyError, Pipeline, Portrait, Visemes
from linly_pipeline.text import cues, write_subtitles

TEXT = "Hello! I was made from one photo and a few lines of text. Nothing of me has ever left this computer."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", default=TEXT)
    parser.add_argument(
        "--portrait", default="portrait-astronaut", help="a photo, or a portrait of the model store"
    )
    parser.add_argument("--output", type=Path, default=Path("talking_head.mp4"))
    args = parser.parse_args()

    pipeline = Pipeline(Hibari(), Visemes(), Portrait(args.portrait))
    turn = pipeline.say(args.text, out=args.output)

    subtitles = args.output.with_suffix(".srt")
    write_subtitles(subtitles, cues((each.text, each.start_s, each.end_s) for each in turn.utterances))
    assert turn.played is not None
    print(
        f"{args.output}: {turn.played.frames} frames, {turn.played.media_s:.1f} s, made in {turn.elapsed_s:.1f} s"
    )


if __name__ == "__main__":
    try:
        main()
    except LinlyError as error:
        raise SystemExit(f"talking_head: {error}") from error
