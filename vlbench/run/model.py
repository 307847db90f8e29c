"""Models resolved: their adapters found and their arguments checked; no weights are loaded."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch

from vlbench.boards.privacy import shown
from vlbench.capabilities import (
    ImageEncoder,
    RegionEncoder,
    element,
    has,
    offered,
)
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.library_names import library_model, split_arguments
from vlbench.catalog.missing_capabilities import half_offered_by, lacking
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.code.fingerprints import contents, is_served
from vlbench.code.functions import find_object, load_object, names_file, require_own_file
from vlbench.errors import CannotDo, SpecError, UnknownNameError
from vlbench.run.options import Options, Word, model_args
from vlbench.schema import (
    Misfit,
    ModelName,
    alternatives,
    hints,
    parameters,
    read,
    read_arguments,
)
from vlbench.system.digests import digest

# Arguments that vlbench gives an adapter.
FILLED = ("device", "dtype")

# The argument of image encoders that do not encode regions: it selects the shipped adapter that
# does, with the model as its companion `encoder`.
ENCODE_BY = "encode_by"
EncodeBy: TypeAlias = Literal["crops", "grid"]
OF_REGIONS: Mapping[EncodeBy, str] = {"crops": "crops:Crops", "grid": "crops:Grid"}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model resolved: the name of its rows, its adapter class, and its checked arguments.

    `companions` are the models that it is made from, by parameter; `instance` is the adapter object
    if the user made it. It is `pinned` if the user named its rows. `encode_by` is how regions would
    be encoded if the model encodes only images; if a probe needs regions, `fit` returns a model of
    the shipped adapter, with the image encoder as its `encoded_by`.
    """

    name: str
    spec: ModelSpec
    adapter: type
    arguments: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    companions: Mapping[str, Model] = field(default_factory=dict)
    instance: Any = None
    encode_by: EncodeBy = "crops"
    encoded_by: Model | None = None
    pinned: bool = False

    @cached_property
    def key(self) -> str:
        """The same for models that are loaded in the same way, different for all others."""
        if self.instance is not None:
            return f"object {id(self.instance)}"
        texts = {name: repr(value) for name, value in self.arguments.items()}
        made_from = [part.key for part in self.companions.values()]
        kind = self.adapter.__qualname__
        return digest([self.spec.name, str(self.spec.file), kind, texts, made_from])

    @property
    def base(self) -> Model:
        """The model as the user named it: the image encoder if an adapter encodes its regions."""
        return self.encoded_by or self

    @property
    def served(self) -> str | None:
        """The model's name on its server; None if the weights are on this machine."""
        return str(self._argument("served")) if is_served(self.adapter) else None

    @property
    def address(self) -> str | None:
        """The address of the model's server; None if the weights are on this machine."""
        address = self._argument("address") if is_served(self.adapter) else None
        return address if isinstance(address, str) else None

    def _argument(self, name: str) -> Any:
        """Return an argument, or its default; for an object made by hand, its attribute."""
        if self.instance is not None:
            return getattr(self.instance, name, None)
        signature = parameters(self.adapter)
        return self.arguments.get(name, signature[name].default if name in signature else None)

    @property
    def may_change(self) -> bool:
        """Whether a server may have other weights at the next run and the user did not pin it."""
        return any(part.served is not None and not part.pinned for part in self.parts())

    @property
    def contents(self) -> dict[str, Any]:
        """The arguments that outputs depend on, files by their content, also those of defaults.

        A server's model is identified by the name that the user gave it, not by the address.
        """
        skipped = without_effect(self.adapter)
        defaults = contents({k: p.default for k, p in parameters(self.adapter).items()})
        files = {k: default for k, default in defaults.items() if isinstance(default, Path)}
        given = files | contents(self.arguments)
        held = {name: value for name, value in given.items() if name not in skipped}
        return held if self.served is None else held | {"address": self.name}

    def parts(self) -> Iterator[Model]:
        """Yield this model, and the models that it is made from."""
        yield self
        for companion in self.companions.values():
            yield from companion.parts()

    def untrained(self, draw: int) -> Model:
        """Return the same network with random weights, drawn with `init_seed` + `draw`.

        From draw 1 on, the weights are also other than those of a model whose weights are random.
        Raises CannotDo for an adapter object, for an adapter that draws no weights, and for a model
        that is made from others.
        """
        reason = ""
        if self.instance is not None:
            reason = "the model is an object made in Python"
        elif self.companions:
            reason = (
                f"the model is made from {', '.join(one.name for one in self.companions.values())}"
            )
        elif not {"weights", "init_seed"} <= parameters(self.adapter).keys():
            reason = f"{self.adapter.__qualname__} takes no weights=random"
        if reason:
            raise CannotDo(reason)
        drawn = {"weights": "random", "init_seed": self._argument("init_seed") + draw}
        return replace(self, arguments={**self.arguments, **drawn})

    def for_task(self, task: TaskSpec) -> Model:
        """Return the model with the arguments that a task requests, as far as its adapter has them.

        The user's arguments override them. Raises SpecError for invalid values.
        """
        requested = {key: value for key, value in task.model.items() if self.takes(key)}
        if not requested:
            return self
        values = {**self.spec.params, **requested, **self.overrides}
        changed = replace(self, encode_by=_pop_manner(self.spec, self.adapter, values))
        if self.instance is not None:
            return changed
        arguments = _arguments(self.spec, self.adapter, values, self.overrides)
        return replace(changed, arguments=arguments)

    def takes(self, argument: str) -> bool:
        """Return whether a task may give the model an argument."""
        signature = {} if self.instance is not None else parameters(self.adapter)
        by_plan = argument == ENCODE_BY and _encodes_only_images(self.adapter, self.spec.without)
        return argument in signature or by_plan


def fit(model: Model, annotation: Any) -> tuple[Model, str]:
    """Return a model as an annotation needs it, and the capabilities that it lacks, in words.

    If regions are to be encoded, an image encoder is wrapped to encode them by crops or by its
    grid.
    """
    without = model.spec.without
    gap = lacking(model.adapter, annotation, without)
    kinds = [element(alternative) for alternative in alternatives(annotation)]
    if not gap or RegionEncoder not in kinds or not _encodes_only_images(model.adapter, without):
        return model, gap
    adapter = load_object(OF_REGIONS[model.encode_by], [shipped_source() / "model_adapters"])
    if gap := lacking(model.adapter, hints(adapter)["encoder"], without):
        return model, f"{gap}, which {ENCODE_BY}={model.encode_by} needs"
    made = {"adapter": adapter, "arguments": {}, "companions": {"encoder": model}, "instance": None}
    return replace(model, **made, encoded_by=model), ""


def _encodes_only_images(adapter: type, without: Sequence[str]) -> bool:
    """Return whether an adapter encodes images but not regions, and regions are not excluded."""
    regions = has(adapter, RegionEncoder) or RegionEncoder.__name__ in without
    return has(adapter, ImageEncoder, without) and not regions


def resolve_model(
    catalog: Catalog, model: Any, options: Options, *, above: tuple[str, ...] = ()
) -> Model:
    """Return the model of a name, of LIBRARY:NAME, of FILE:Class, or of an adapter object.

    A name may be followed by arguments, as on boards: `NAME[K=V,...]`.
    `above` are the names of the models that are made from it. Raises SpecError and
    UnknownNameError.
    """
    if not isinstance(model, str):
        return _of_object(model, options)
    model, words = split_arguments(model)
    options = replace(options, model_args={**options.model_args, **model_args(words)})
    spec = _spec_of(catalog, model, options)
    if spec.unavailable:
        raise UnknownNameError(f"{spec.name} is unavailable: {spec.unavailable}")
    if spec.name in above:
        raise SpecError(f"{spec.document.where(spec.name)}: {spec.name} is made from itself")
    adapter = _find_adapter(spec, options)
    options = replace(options, model_args=_read_words(adapter, options.model_args))
    values = {**spec.params, **options.model_args}
    encode_by = _pop_manner(spec, adapter, values)
    arguments = _arguments(spec, adapter, values, options.model_args)
    companion = partial(_companion, catalog, spec, options, (*above, spec.name))
    return Model(
        name=spec.name + _name_overrides(options, adapter)
        if options.name is None
        else options.name,
        spec=spec,
        adapter=adapter,
        arguments=arguments,
        overrides=options.model_args,
        companions={
            key: fit(companion(key), hints(adapter)[key])[0]
            for key, value in arguments.items()
            if isinstance(value, ModelName)
        },
        encode_by=encode_by,
        pinned=options.name is not None,
    )


def _read_words(adapter: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with typed words converted to the types of the adapter's parameters."""
    return {
        key: value.as_annotated(hints(adapter).get(key, Any)) if isinstance(value, Word) else value
        for key, value in arguments.items()
    }


def _companion(
    catalog: Catalog, spec: ModelSpec, options: Options, above: tuple[str, ...], key: str
) -> Model:
    """Return the model that a parameter names, on the command line or in a model's entry."""
    typed = options.model_args.get(key)
    if typed is None and not options.trust:
        where = spec.document.where(spec.name, "params", key)
        require_own_file(where, spec.params[key], spec.source)
    return resolve_model(catalog, typed or spec.params[key], options.of_companion, above=above)


def _spec_of(catalog: Catalog, model: str, options: Options) -> ModelSpec:
    """Return the entry of FILE:Class, of LIBRARY:NAME, or of a name in models.yaml."""
    if names_file(model):
        return _of_file(model)
    return library_model(model, options.model_args) or catalog.model(model)


def _find_adapter(spec: ModelSpec, options: Options) -> type:
    """Return the adapter's class. Raises SpecError for any other object."""
    where = partial(spec.document.where, spec.name)
    adapter = find_object(where, spec.adapter, spec.folders, trusted=options.trusted)
    if not isinstance(adapter, type):
        raise SpecError(f"{where()}: an adapter must be a class; '{spec.adapter}' is {adapter!r}")
    return adapter


def _of_object(model: Any, options: Options) -> Model:
    kind, overrides = type(model), dict(options.model_args)
    name = kind.__name__ if options.name is None else options.name
    spec = ModelSpec(name, Path(), Document(Path(name), {}, {}))
    encode_by = _pop_manner(spec, kind, overrides)
    if isinstance(model, dict | types.FunctionType | torch.nn.Module) and not offered(kind):
        raise UnknownNameError(_no_model(kind))
    if isinstance(model, type) or overrides:
        raise UnknownNameError(f"{model!r}: give a model's name with arguments, or an object")
    return Model(
        name=name + _format_overrides(options.model_args) if options.name is None else name,
        spec=spec,
        adapter=kind,
        overrides=options.model_args,
        instance=model,
        encode_by=encode_by,
    )


def _no_model(kind: type) -> str:
    """Return why an object is not a model: the methods missing from capabilities it has in part."""
    gaps = half_offered_by(kind)
    lacks = "; ".join(f"for {name}, {gap}" for name, gap in gaps.items())
    methods = (
        "none of the methods of a capability: an ImageEncoder has preprocess and encode_images, a "
        "TextEncoder encode_texts, an ImageTextScorer score_pairs"
    )
    return f"a {kind.__qualname__} is not a model: {lacks or f'it has {methods}'}"


def _of_file(model: str) -> ModelSpec:
    """Return the entry that `path/to/file.py:Class` stands for."""
    path, _, name = model.rpartition(":")
    file = Path(path).absolute()
    if not file.is_file():
        raise UnknownNameError(f"no file {path}")
    return ModelSpec(name, file.parent, Document(file, {}, {}), adapter=f"{file.stem}:{name}")


def _pop_manner(spec: ModelSpec, adapter: type, values: dict[str, Any]) -> EncodeBy:
    """Remove and return how a model that encodes only images encodes regions.

    Raises SpecError for an unknown way.
    """
    if not _encodes_only_images(adapter, spec.without) or ENCODE_BY in parameters(adapter):
        return "crops"
    try:
        return cast(EncodeBy, read(EncodeBy, values.pop(ENCODE_BY, "crops")))
    except Misfit as error:
        where = spec.document.where(spec.name)
        raise SpecError(f"{where}: {spec.name}: {error.below(ENCODE_BY)}") from error


def _arguments(
    spec: ModelSpec, adapter: type, values: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an adapter's checked arguments. Raises SpecError with every problem."""
    try:
        arguments = read_arguments(adapter, values, FILLED)
    except Misfit as error:
        where = f"{spec.document.where(spec.name)}: {spec.name}"
        raise SpecError("\n".join(error.lines(lambda *_: where))) from error
    return {
        key: value if key in overrides else _resolve_path(spec.file, value)
        for key, value in arguments.items()
    }


def _resolve_path(file: Path, value: Any) -> Any:
    """Return a path in models.yaml, which is relative to that file, as a full path."""
    if not isinstance(value, str | Path):
        return value
    place = file.parent / value
    written_as_path = isinstance(value, Path) or "/" in value
    return type(value)(place) if written_as_path and place.exists() else value


def without_effect(adapter: type) -> Sequence[str]:
    """Return the arguments that change no output of an adapter, such as the timeout of a request.

    An adapter lists them as `without_effect`.
    """
    names: Sequence[str] = getattr(adapter, "without_effect", ())
    return names


def _name_overrides(options: Options, adapter: type) -> str:
    """Return `[k=v,...]` of the arguments with an effect that the user overrode."""
    skipped = without_effect(adapter)
    changes = {key: value for key, value in options.model_args.items() if key not in skipped}
    usual = options.dtype == Options().dtype
    return _format_overrides(changes | ({} if usual else {"dtype": options.dtype}))


def _format_overrides(overrides: Mapping[str, Any]) -> str:
    """Return `[k=v,...]` with paths as file names; empty for no overrides."""
    pairs = [f"{key}={_word(shown(value, key))}" for key, value in sorted(overrides.items())]
    return f"[{','.join(pairs)}]" if pairs else ""


def _word(value: Any) -> str:
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)
