"""Files of region features: two regions of image 42, which is 40 pixels wide and 30 high."""

import base64
import pickle

import h5py
import numpy as np
import torch

BOXES = np.array([[0, 0, 9, 9], [1, 2, 30, 20.5]], np.float32)
VECTORS = np.arange(6, dtype=np.float32).reshape(2, 3)
FRACTIONS = BOXES[:, [0, 1, 2, 3, 2, 3]] / [40, 30, 40, 30, 40, 30]


def encode(array, dtype=np.float32):
    return base64.b64encode(np.asarray(array, dtype).tobytes()).decode()


def lxmert(name="COCO_train2014_000000000042", *, vectors=VECTORS, objects=(1, 0), boxes=BOXES):
    """Return a row of LXMERT's TSV."""
    numbers = [encode(objects, np.int64), encode([0.5, 0.25])] * 2
    return "\t".join([name, "30", "40", *numbers, "2", encode(boxes), encode(vectors)]) + "\n"


def butd(name="42"):
    """Return a row of bottom-up attention's TSV."""
    return "\t".join([name, "40", "30", "2", encode(BOXES), encode(VECTORS)]) + "\n"


def put_tsv(root, *lines):
    (root / "features.tsv").write_text("".join(lines))
    return root / "features.tsv"


def put_npz(root, *images):
    """Write a folder with one region for each image, a vector of its number."""
    (root / "butd").mkdir()
    for image in images:
        arrays = {"x": np.full((1, 3), image, np.float32), "boxes": BOXES[:1]}
        np.savez(root / f"butd/{image}.npz", **arrays, image_w=40, image_h=30)
    return root / "butd"


def put_ban(root, *, slots=True, index=None):
    """Images 42, with one region, and 7, with two (or, of a fixed number, two each)."""
    columns = {"image_features": VECTORS, "image_bb": BOXES, "spatial_features": FRACTIONS}
    with h5py.File(root / "val.hdf5", "w") as file:
        for name, rows in columns.items():
            two = np.concatenate([rows[1:], rows]) if slots else np.stack([rows, rows])
            file[name] = two.astype(np.float32)
        if slots:
            file["pos_boxes"] = np.array([[0, 1], [1, 3]])
    content = pickle.dumps({42: 0, 7: 1}, protocol=2) if index is None else index
    (root / "val_imgid2idx.pkl").write_bytes(content)
    return root / "val.hdf5"


def is_whole(regions):
    same = torch.equal(regions.boxes, torch.from_numpy(BOXES))
    return same and torch.equal(regions.vectors, torch.from_numpy(VECTORS))
