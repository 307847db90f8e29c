"""Models named by their library instead of an entry in models.yaml.

`timm:NAME`, `open_clip:ARCHITECTURE/TAG`, `open_clip:hf-hub:ORG/NAME`, `hf:ORG/NAME` and
`torchvision:NAME/WEIGHTS` stand for a shipped adapter and its arguments. A name on the hub may end
in `@REVISION`; otherwise the current commit of `main` becomes the argument `revision`. Except for
torchvision, the path of a folder may replace the name: `hf:./folder`.

`openai:NAME@URL` is the model NAME of a server at an http or https address. `recorded:PATH` stands
for answers in a file or a folder.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.privacy import shown
from vlbench.catalog.sources import shipped_source, top_level
from vlbench.catalog.specs import ModelSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.data.folders import is_visible
from vlbench.errors import UnknownNameError
from vlbench.system.files import MOST_TEXT, read_text

# The adapters that read models of transformers, and the mappings of transformers with their types.
# If several adapters read a type, the class that saved the checkpoint decides, otherwise the order.
READERS = {
    "hf_vlm:HfVlm": ("IMAGE_TEXT_TO_TEXT",),
    "hf_dual:HfDual": ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
    "hf_vision:HfVision": ("IMAGE", "IMAGE_CLASSIFICATION"),
    "hf_text:HfText": ("TEXT_ENCODING", "MASKED_LM", "CAUSAL_LM"),
}

# Adapters for a single architecture, by the class that saved the checkpoint.
READERS_OF_CLASS = {
    "BlipForImageTextRetrieval": "blip:Blip",
    "DetrForObjectDetection": "detr:Detr",
    "ViltForImageAndTextRetrieval": "vilt:Vilt",
    "ViltForMaskedLM": "vilt:Vilt",
}
HUB = "hf-hub:"
# How to use a local copy of a model of transformers.
HF_INSTEAD = "hf:./FOLDER, or with --model-args weights=FOLDER"
# The forms of model names of each library.
FORMS = {
    "hf": "hf:ORG/NAME, hf:ORG/NAME@REVISION, or hf:./FOLDER",
    "open_clip": "open_clip:ARCHITECTURE/TAG, open_clip:hf-hub:ORG/NAME, or open_clip:./FOLDER",
    "openai": "openai:NAME@URL, such as openai:llava@http://localhost:8000/v1",
    "recorded": "recorded:PATH, a file or a folder of answers",
    "timm": "timm:NAME, or timm:./FOLDER",
    "torchvision": "torchvision:NAME, or torchvision:NAME/WEIGHTS",
}


def reader_of(config: Mapping[str, Any], name: str) -> str:
    """Return the adapter that reads a model of transformers, according to its configuration.

    Raises UnknownNameError if there is none.
    """
    architectures = config.get("architectures")
    saved_by = {str(one) for one in architectures} if isinstance(architectures, list) else set()
    of_class = [READERS_OF_CLASS[one] for one in sorted(saved_by & set(READERS_OF_CLASS))]
    if of_class:
        return of_class[0]
    kind = str(config.get("model_type", ""))
    classes = {reader: _classes(kind, mappings) for reader, mappings in READERS.items()}
    fitting = [reader for reader, names in classes.items() if names]
    exact = [reader for reader in fitting if saved_by & classes[reader]]
    if not fitting:
        raise UnknownNameError(f"hf:{name} {_why_unread(config, kind, name)}")
    return (exact or fitting)[0]


def _classes(kind: str, mappings: tuple[str, ...]) -> set[str]:
    """Return the classes of transformers for a model type in some of its mappings."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 - takes a second

    named = [getattr(modeling_auto, f"MODEL_FOR_{one}_MAPPING_NAMES").get(kind) for one in mappings]
    if "IMAGE" in mappings:  # Towers of larger models, such as CLIP's, are in no mapping.
        base = modeling_auto.MODEL_MAPPING_NAMES.get(kind)
        named.append(base if str(base).endswith(("VisionModel", "VisionTransformer")) else None)
    tuples = [(entry,) if isinstance(entry, str) else entry for entry in named if entry]
    return {name for names in tuples for name in names}


def _why_unread(config: Mapping[str, Any], kind: str, name: str) -> str:
    published = config.get("pretrained_cfg")
    if isinstance(published, dict) and "architecture" in config:
        if _folder(name):
            return f"is a model of timm; write timm:{name}"
        tag = published.get("tag", "")
        model = f"timm:{config['architecture']}{tag and f'.{tag}'}"
        # Another user's repository has other weights, but the tag of the weights it was trained
        # from.
        copy = (
            f"timm:./FOLDER for a copy of it here; {model} is only the model it may be trained from"
        )
        return f"is a model of timm; write {model if name.startswith('timm/') else copy}"
    why = f"is of type '{kind}'" if kind else "has a configuration without a model_type"
    return f"{why}, which no adapter reads; name an adapter for it in your models.yaml"


class Meant(NamedTuple):
    """The meaning of a name: an adapter, its arguments, and the model's name in rows."""

    adapter: str
    params: dict[str, Any]
    shown: str


def named_elsewhere(name: str) -> list[str]:
    """Return names of models that a file, a folder or a library's function of this name has.

    For a Python file, these are its classes. Files and libraries are read, not imported.
    """
    file = Path(name.removesuffix(":"))
    classes = top_level(file, ast.ClassDef) if file.suffix == ".py" and file.is_file() else ()
    names = [f"{file}:{node.name}" for node in classes]
    if Path(name).is_dir():
        names.append(f"hf:{name}" if name.startswith(("/", ".", "~")) else f"hf:./{name}")
    made = re.compile(rf"^def {re.escape(name.partition('.')[0])}\(", re.MULTILINE)
    for library in ("timm", "torchvision"):
        spec = importlib.util.find_spec(library)
        folders = spec.submodule_search_locations if spec else ()
        files = (file for folder in folders or () for file in Path(folder, "models").rglob("*.py"))
        if name.isprintable() and any(made.search(file.read_text("utf-8")) for file in files):
            names.append(f"{library}:{name}")
    return names


def library_model(name: str, arguments: Mapping[str, Any]) -> ModelSpec | None:
    """Return the entry that `LIBRARY:NAME` stands for; None for any other name.

    `given` are the arguments that the user overrides. For `hf:` names the configuration is read,
    from the hub if it is not cached. Raises UnknownNameError with the nearest names, and
    WeightsError if the configuration is not available.
    """
    library, colon, rest = name.partition(":")
    if not colon or library not in FORMS:
        return None
    if not rest:
        raise UnknownNameError(f"'{name}' does not name a model; write {FORMS[library]}")
    meant = _MEANINGS[library](rest, arguments)
    file = shipped_source() / "model_adapters" / f"{meant.adapter.partition(':')[0]}.py"
    return ModelSpec(
        f"{library}:{meant.shown}",
        shipped_source(),
        Document(file, {}, {}),
        adapter=meant.adapter,
        params=meant.params,
    )


def reads_hub(name: Any) -> bool:
    """Return whether planning a model reads a configuration that may be on the hub."""
    return isinstance(name, str) and name.startswith(("hf:", f"open_clip:{HUB}"))


def pinned(name: str, params: Mapping[str, Any]) -> str:
    """Return a row's model name with the recorded commit added, if the name has no revision."""
    commit = str(params.get("revision", ""))
    moves = reads_hub(name) and "@" not in name and len(commit) == 40
    return f"{name}@{commit}" if moves else name


def _timm(text: str, arguments: Mapping[str, Any]) -> Meant:
    del arguments
    folder = _folder(text)
    if folder is None and not _is_written("timm", text):
        from vlbench.adapter_kit.library_models import require_timm  # noqa: PLC0415 - seconds

        require_timm(text)
    return Meant("timm_vision:TimmVision", {"architecture": str(folder or text)}, _short_name(text))


def _torchvision(text: str, arguments: Mapping[str, Any]) -> Meant:
    del arguments
    name, slash, weights = text.partition("/")
    random = weights == "random"
    if not _is_written("torchvision", name, *([weights] if slash and not random else [])):
        from vlbench.adapter_kit.library_models import require_torchvision  # noqa: PLC0415 - too

        require_torchvision(name, weights)
    # The tag gives the preprocessing and the classes of a local file that replaces the weights.
    tagged = {"weights": weights} | ({} if random else {"tag": weights}) if slash else {}
    params = {"architecture": name} | tagged
    return Meant("torchvision_cnn:TorchvisionCnn", params, text)


def _open_clip(text: str, arguments: Mapping[str, Any]) -> Meant:
    adapter, folder = "open_clip:OpenClip", _folder(text)
    if folder:
        return Meant(adapter, {"architecture": str(folder)}, _short_name(text))
    if text.startswith(HUB):
        repository, _, revision = text.removeprefix(HUB).partition("@")
        version = str(arguments.get("revision", revision or "main"))
        file = _of_hub(repository, "open_clip_config.json", version, "open_clip:./FOLDER")
        params = {"architecture": f"{HUB}{repository}", "revision": file.parent.name}
        return Meant(adapter, params, text)
    name, _, tag = text.partition("/")
    random = tag == "random"
    if not tag or not _is_written("open_clip", name, *([] if random else [tag])):
        from vlbench.adapter_kit import library_models  # noqa: PLC0415 - as above

        library_models.require_open_clip(name)
        if not random:
            library_models.require_open_clip_tag(name, tag)
    # The tag determines the normalisation for a local file that replaces the weights.
    params = {"architecture": name, "weights": tag} | ({} if random else {"tag": tag})
    return Meant(adapter, params, text)


def _hf(text: str, arguments: Mapping[str, Any]) -> Meant:
    folder = _folder(text)
    copy = Path(str(arguments.get("weights", ""))).expanduser()
    if folder:
        file, params = folder / "config.json", {"architecture": str(folder)}
    else:
        repository, _, revision = text.partition("@")
        if Path(repository).is_dir():
            raise UnknownNameError(f"hf:{text} is also a folder here; write hf:./{text} for it")
        params = {"architecture": repository}
        if arguments.get("weights") and copy.is_dir():
            file = copy / "config.json"
        else:
            version = str(arguments.get("revision", revision or "main"))
            file = _of_hub(repository, "config.json", version, HF_INSTEAD)
            params["revision"] = file.parent.name
    return Meant(reader_of(_read_json(file), text), params, _short_name(text))


def _openai(text: str, arguments: Mapping[str, Any]) -> Meant:
    del arguments
    name, at, rest = text.partition("@http")
    if not (name and at and rest.startswith(("://", "s://"))):
        raise UnknownNameError(f"'openai:{name}' lacks an address; write {FORMS['openai']}")
    params = {"served": name, "address": f"http{rest}"}
    return Meant("openai_server:OpenAiServer", params, shown(name))


def _recorded(text: str, arguments: Mapping[str, Any]) -> Meant:
    del arguments
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise UnknownNameError(f"no file or folder {text}")
    return Meant("recorded:Recorded", {"path": str(path)}, shown(path.name))


_MEANINGS: dict[str, Callable[[str, Mapping[str, Any]], Meant]] = {
    "hf": _hf,
    "open_clip": _open_clip,
    "openai": _openai,
    "recorded": _recorded,
    "timm": _timm,
    "torchvision": _torchvision,
}


def _of_hub(repository: str, file: str, revision: str, instead: str) -> Path:
    """Return a file of a repository, in a folder named after its commit."""
    from vlbench.adapter_kit.library_models import hub_file  # noqa: PLC0415 - imports torch

    return hub_file(repository, file, revision, f"--model {instead}")


def _read_json(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(read_text(file, MOST_TEXT))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", error)
        raise UnknownNameError(f"{file} cannot be read as a configuration: {why}") from error
    if not isinstance(content, dict):
        raise UnknownNameError(f"{file} cannot be read as a configuration: it is not a mapping")
    return content


def _folder(text: str) -> Path | None:
    """Return the folder of a text written as a path; None for a name."""
    if text[0] not in "./~" and not Path(text).is_absolute():
        return None
    folder = Path(text).expanduser().absolute()
    if not folder.is_dir():
        raise UnknownNameError(f"no folder {text}")
    return folder


def _short_name(text: str) -> str:
    """Return a name as rows show it; a path is shortened to its last part."""
    return text if _folder(text) is None else Path(text).expanduser().resolve().name


def recordings(name: Any) -> list[Any]:
    """Return a `recorded:` name for each path that its glob matches; another name alone.

    The last part of a path may be a glob, which leaves out hidden files and caches; a path that
    exists is none. Raises UnknownNameError if nothing matches.
    """
    if not (isinstance(name, str) and name.startswith("recorded:") and {*name} & {*"*?"}):
        return [name]
    text, bracket, arguments = name.removeprefix("recorded:").partition("[")
    root = Path(text).expanduser()
    if root.exists():
        return [name]
    paths = [path for path in sorted(root.parent.glob(root.name)) if is_visible(path.name)]
    matches = [path for path in paths if path.suffix != ".yaml"]
    if not matches:
        raise UnknownNameError(f"no file or folder matches {text}")
    return [f"recorded:{path}{bracket}{arguments}" for path in matches]


def split_names(text: str) -> list[str]:
    """Return the names of models in a text, which are separated by commas outside of brackets."""
    return re.split(r",(?![^\[\]]*\])", text)


def split_arguments(name: str) -> tuple[str, str]:
    """Return the name and the arguments of `NAME[K=V,...]`, as boards write it."""
    bracketed = re.fullmatch(r"(.+)\[([^\[\]]*=[^\[\]]*)\]", name)
    return (bracketed[1], bracketed[2]) if bracketed else (name, "")


def row_name(text: str) -> str:
    """Return a model's name on boards; the path in LIBRARY:FOLDER is shortened to its last part."""
    library, _, rest = text.partition(":")
    is_path = library in FORMS and bool(rest) and (rest[0] in "./~" or Path(rest).is_absolute())
    return f"{library}:{Path(rest).expanduser().resolve().name}" if is_path else text


def folder_here(name: str) -> str:
    """Return LIBRARY:./FOLDER for the name of a row if it is a folder here, else the name.

    Rows have the last part of a folder's path as the name of its model.
    """
    library, _, rest = name.partition(":")
    return f"{library}:./{rest}" if library in FORMS and rest and Path(rest).is_dir() else name


def _is_written(library: str, *words: str) -> bool:
    """Return whether words occur in the files of a library, which are read as text.

    Importing the library would take seconds. If a word does not occur, the library is imported to
    decide, and to give the nearest names.
    """
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        return False
    folder = Path(spec.origin).parent
    files = [*folder.glob("*.py"), *folder.glob("models/*.py")]
    names = [file.stem for file in folder.glob("model_configs/*.json")]
    text = "\n".join([*names, *(file.read_text("utf-8") for file in files)])
    return all(re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", text) for word in words)
