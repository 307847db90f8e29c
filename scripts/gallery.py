"""The pictures of docs/gallery.md, made by the commands that stand beside them.

The site's build draws those of shipped boards into docs/generated/gallery/. Run as a script, this
file runs small models, which takes minutes, and writes what they draw into docs/gallery/.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from vlbench.data.scenes.loaders import drawn_rows
from vlbench.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
BOARDS, RUNS = ROOT / "leaderboards", ROOT / "docs" / "gallery"

# The shipped boards that are drawn. Every task that names figures is among them or is run.
SHOWN = (
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
# Pictures, and what the commands call them.
BOARD_PICTURES = {
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
    'vlbench attention tiny-vlm photo.png "CAPTION" -o attention.png',
    "vlbench show scenes",
)
RUN_PICTURES = {
    "layers.png": "results/figures/layers_few_shot_scenes_layers.png",
    "attention.png": "attention.png",
    "scenes.png": "scenes.png",
}


def draw_boards(folder: Path) -> None:
    """Write the pictures of shipped boards into a folder, those that changed."""
    with TemporaryDirectory() as name:
        own = Path(name, "leaderboards")
        own.mkdir()
        for board in SHOWN:
            shutil.copy(BOARDS / f"{board}.json", own)
            shutil.copytree(BOARDS / "artifacts" / board, own / "artifacts" / board)
        _draw(Path(name), BOARD_COMMANDS, BOARD_PICTURES, folder)


def draw_runs(folder: Path) -> None:
    """Run small models, and write the pictures of them into a folder."""
    with TemporaryDirectory() as name:
        row = drawn_rows("scenes", "test", 1, Path(name, "drawn"))
        row["image"][0].save(Path(name, "photo.png"))
        commands = [one.replace("CAPTION", row["captions"][0][0]) for one in RUN_COMMANDS]
        _draw(Path(name), commands, RUN_PICTURES, folder)


def _draw(place: Path, commands: Sequence[str], pictures: Mapping[str, str], folder: Path) -> None:
    """Run commands in a place, and copy the pictures that changed from there."""
    for command in commands:
        words = [sys.executable, "-m", "vlbench", *shlex.split(command)[1:]]
        subprocess.run(words, cwd=place, check=True, capture_output=True)  # noqa: S603 - ours
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in pictures.items():
        content = (place / made).read_bytes()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            write_whole(folder / name, content)


if __name__ == "__main__":
    draw_runs(RUNS)
