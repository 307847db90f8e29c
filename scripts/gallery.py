"""The pictures of docs/gallery.md, made by the commands beside them.

The site's build draws the pictures of shipped boards into docs/generated/gallery/. The script runs
small models for about ten minutes, and writes smaller versions of their pictures into
docs/gallery/.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import PIL.Image

from vlbench.data.scenes.loaders import drawn_rows
from vlbench.system.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
BOARDS, RUNS = ROOT / "leaderboards", ROOT / "docs" / "gallery"

# The shipped boards that are drawn.
SHOWN = (
    "blink",
    "few_shot_fashion_mnist",
    "few_shot_scenes",
    "robustness_cifar10_200",
    "transfer_scenes",
    "rsa_scenes",
    "entity_grounding_scenes",
    "noun_replacement_scenes",
)
BOARD_COMMANDS = (
    "vlbench leaderboard build",
    "vlbench leaderboard scatter few_shot_scenes transfer_scenes -o scatter.svg",
)
# Pictures, and their names in the commands.
BOARD_PICTURES = {
    "above_response_bias.svg": "leaderboards/figures/blink_above_response_bias.svg",
    "replies.svg": "leaderboards/figures/blink/llava-v1.5-13b_replies.svg",
    "few_shot_fashion_mnist.svg": "leaderboards/figures/few_shot_fashion_mnist.svg",
    "robustness_cifar10_200.svg": "leaderboards/figures/robustness_cifar10_200.svg",
    "heads.svg": "leaderboards/figures/entity_grounding_scenes/tiny-vlm.svg",
    "match_scores.svg": "leaderboards/figures/noun_replacement_scenes_match_scores.svg",
    "correlations.svg": "leaderboards/figures/rsa_scenes_all_correlations.svg",
    "dendrogram.svg": "leaderboards/figures/rsa_scenes_all_dendrogram.svg",
    "map.svg": "leaderboards/figures/rsa_scenes_all_map.svg",
    "scatter.svg": "scatter.svg",
}

RUN_COMMANDS = (
    "vlbench --model tiny-rn,tiny-clip --tasks layers_few_shot_scenes",
    "vlbench --model tiny-clip --tasks readout_scenes",
    "vlbench --model tiny-vlm --tasks ablation_scenes",
    "vlbench --model tiny-clip --tasks caption_patterns_scenes",
    "vlbench --model tiny-clip,tiny-uniter --tasks caption_cross_scenes",
    "vlbench leaderboard build",
    'vlbench attention tiny-vlm photo.png "a drawing of a canoe ." --word canoe -o attention.png',
    "vlbench show scenes",
)
RUN_PICTURES = {
    "layers.png": "results/figures/layers_few_shot_scenes_layers.png",
    "stages.png": "results/figures/readout_scenes_stages.png",
    "drops_heads.png": "results/figures/ablation_scenes/tiny-vlm_heads.png",
    "drops_layers.png": "results/figures/ablation_scenes/tiny-vlm_layers.png",
    "words.png": "results/figures/caption_patterns_scenes/tiny-clip_words.png",
    "captions.png": "results/figures/caption_patterns_scenes/tiny-clip_captions.png",
    "square.png": "results/figures/caption_cross_scenes_square.png",
    "attention.png": "attention.png",
    "scenes.png": "scenes.png",
}
# The width in pixels and the number of colours of a committed picture.
WIDTH, COLOURS = 900, 128


def draw_boards(folder: Path) -> None:
    """Write the changed pictures of shipped boards into a folder."""
    with TemporaryDirectory() as name:
        own = Path(name, "leaderboards")
        own.mkdir()
        for board in SHOWN:
            shutil.copy(BOARDS / f"{board}.json", own)
            shutil.copytree(BOARDS / "artifacts" / board, own / "artifacts" / board)
        _draw(Path(name), BOARD_COMMANDS, BOARD_PICTURES, folder)


def draw_runs(folder: Path) -> None:
    """Run small models, and write their pictures into a folder."""
    with TemporaryDirectory() as name:
        rows = drawn_rows("scenes", "test", 1, Path(name, "drawn"))
        rows["image"][0].save(Path(name, "photo.png"))
        _draw(Path(name), RUN_COMMANDS, RUN_PICTURES, folder)


def _draw(place: Path, commands: Sequence[str], pictures: Mapping[str, str], folder: Path) -> None:
    """Run commands in a place, and copy the pictures that changed from there."""
    for command in commands:
        words = [sys.executable, "-m", "vlbench", *shlex.split(command)[1:]]
        subprocess.run(words, cwd=place, check=True, capture_output=True)  # noqa: S603 - ours
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in pictures.items():
        content = _smaller(place / made) if name.endswith(".png") else (place / made).read_bytes()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            write_whole(folder / name, content)


def _smaller(file: Path) -> bytes:
    content, picture = BytesIO(), PIL.Image.open(file).convert("RGB")
    picture.thumbnail((WIDTH, 10 * WIDTH))
    picture.quantize(COLOURS, dither=PIL.Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


if __name__ == "__main__":
    draw_runs(RUNS)
