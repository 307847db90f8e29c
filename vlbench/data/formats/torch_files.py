"""Files of torch, read by torch without running their code.

Three formats are read: the zip archive of torch.save, the stream of pickles and storages that
torch.save wrote before version 1.6, and TorchScript archives, but only those published by OpenAI.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from vlbench.data.formats.pickles import require_bounded

# The sha256 of OpenAI's archives, each contained in the address where it is published:
# torch.jit.load runs the code of an archive.
OPENAI_ARCHIVES = frozenset(
    {
        "afeb0e10f9e5a86da6080e35cf09123aca3b358a0c3e3b6c78a7b63bc04b6762",  # RN50
        "8fa8567bab74a42d41c5915025a8e4538c3bdbe8804a470a72f30b0d94fab599",  # RN101
        "7e526bd135e493cef0776de27d5f42653e6b4c8bf9e0f653bb11773263205fdd",  # RN50x4
        "52378b407f34354e150460fe41077663dd5b39c54cd0bfd2b27167a4a06ec9aa",  # RN50x16
        "be1cfb55d75a9666199fb2206c106743da0f6468c9d327f3e0d0a543a9919d9c",  # RN50x64
        "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af",  # ViT-B-32
        "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f",  # ViT-B-16
        "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836",  # ViT-L-14
        "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02",  # ViT-L-14-336px
    }
)
# The parts of a tensor; torch resolves storages itself.
TENSORS = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
}


class _AnyAttribute(type):
    """Makes a class the value of all its attributes; setting an item does nothing."""

    def __getattr__(cls, name: str) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None:
        """Do nothing."""


class Inert(metaclass=_AnyAttribute):
    """Substitute for every class and function that is not a part of a tensor.

    Calling it returns the class itself, so no operation of a pickle on it runs code.
    """

    dump_patches = False  # torch writes a file into the current folder if this is true

    def __new__(cls, *_: object, **__: object) -> Any:
        """Return the class itself."""
        return cls


class _PastPickles(pickle.Unpickler):
    """Python's unpickler, which resolves parts of tensors, and all other names to `Inert`."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the substitute for a class or function."""
        if (module, name) in TENSORS:
            # Its `__call__`, because a pickle could set attributes of the function itself.
            return super().find_class(module, name).__call__
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        return getattr(torch, name) if is_dtype else Inert


# The attributes that torch requires of a pickle module.
PAST_PICKLES = SimpleNamespace(
    __name__="past_pickles",
    Unpickler=_PastPickles,
    load=lambda stream, **options: _PastPickles(stream, **options).load(),
)


def is_torchscript(file: Path) -> bool:
    """Return whether a file is a TorchScript archive, OpenAI's published format."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(Path(name).name == "constants.pkl" for name in archive.namelist())


def read_torch_file(file: Path, *, past_pickles: bool = False) -> Any:
    """Return the content of a file of torch, on the CPU; for a TorchScript archive, its state dict.

    `past_pickles` replaces objects that are not parts of a tensor by `Inert`. Raises the exceptions
    of torch and pickle for broken files.
    """
    with warnings.catch_warnings(action="ignore"):  # of formats that are old, or broken
        if is_torchscript(file):
            return _read_torchscript(file)
        is_zip = zipfile.is_zipfile(file)
        (_check_zip if is_zip else _check_old)(file)
        load = partial(torch.load, file, map_location="cpu", mmap=is_zip)
        try:
            return load(weights_only=True)
        except pickle.UnpicklingError as error:
            if past_pickles:  # a file that torch takes neither for TorchScript nor for tar
                return load(weights_only=False, pickle_module=PAST_PICKLES)
            # Torch's own message explains how to run the code in the file.
            match = re.search(r"GLOBAL (\S+)", str(error))
            what = f"{match[1]}, which is not part of a state dict" if match else "damaged parts"
            message = f"it contains {what}"
            raise pickle.UnpicklingError(message) from error


def _check_zip(file: Path) -> None:
    """Raise ValueError for a damaged archive, and if its pickle could end the process."""
    with zipfile.ZipFile(file) as archive:
        if damaged := archive.testzip():  # torch does not compare checksums
            raise ValueError(f"{damaged} in it is damaged")
        for name in archive.namelist():
            if name.endswith("/data.pkl"):
                require_bounded(io.BytesIO(archive.read(name)))


def _check_old(file: Path) -> None:
    """Raise ValueError for an archive that is cut short, and for pickles as in `_check_zip`."""
    with file.open("rb") as stream:
        if stream.peek(2)[:2] == b"PK":
            raise ValueError("its archive is cut off or broken")
        for _ in range(5):  # two numbers, the machine's, the content, the keys of its storages
            require_bounded(stream)


def _read_torchscript(file: Path) -> dict[str, torch.Tensor]:
    with file.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() not in OPENAI_ARCHIVES:
            raise ValueError(
                "it is a TorchScript archive, which could run code, and not from OpenAI; save "
                "its state_dict() with torch.save or as .safetensors"
            )
        stream.seek(0)
        script = torch.jit.load(stream, map_location="cpu")  # type: ignore[no-untyped-call]
        return dict(script.state_dict())
