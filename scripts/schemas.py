"""JSON schemas of boards and of tasks' files, made from the types with which vlbench reads them."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from vlbench.boards.board import _Head
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import ELSEWHERE, REQUIRED, TaskSpec
from vlbench.results import Result
from vlbench.run.options import Options
from vlbench.run.task import LOADER_FILLED, PROBE_FILLED, loader_names, resolve_task
from vlbench.schema import alternatives, bare, hints, is_record, limits, parameters

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
OF_JSON = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}
OF_JSON |= {NoneType: "null"}

# Keys of a row that the head of its board gives for all rows.
OF_HEAD = ("task", "version", "paper", "primary")


def schema_of(kind: Any) -> Schema:
    """Return the schema of the plain values that vlbench reads for a type."""
    if allowed := limits(kind):
        return {**schema_of(bare(kind)), "minimum": allowed.start}
    options = alternatives(kind)
    if len(options) > 1:
        return {"anyOf": [schema_of(one) for one in options]}
    if kind in OF_JSON:
        return {"type": OF_JSON[kind]}
    if is_record(kind):
        return record(kind)
    # A capability stands for the name of a model.
    if getattr(kind, "_is_protocol", False):
        return {"type": "string"}
    return _made_of(typing.get_origin(kind) or kind, typing.get_args(kind))


def _made_of(origin: Any, inside: Sequence[Any]) -> Schema:
    """Return the schema of a type, with the types inside it; `Any` accepts any value."""
    if origin is typing.Literal:
        return {"enum": [*inside]}
    if origin is tuple:
        parts = [*map(schema_of, inside)]
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
    if origin in {list, Sequence}:
        return {"type": "array", "items": schema_of(inside[0] if inside else Any)}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": schema_of(inside[1] if inside else Any)}
    return {}


def record(function: Any, filled: Iterable[str] = ()) -> Schema:
    """Return the schema of the arguments of a function, or of a record, except `filled` ones."""
    kinds = {name: kind for name, kind in hints(function, extras=True).items() if name != "return"}
    if typing.is_typeddict(function):
        required = set(function.__required_keys__)
    else:
        kinds = {name: kinds[name] for name in parameters(function) if name not in {*filled}}
        known = parameters(function)
        required = {name for name in kinds if known[name].default is known[name].empty}
    properties = {name: schema_of(kind) for name, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": sorted(required)} if required else {})


def board_schema() -> Schema:
    """Return the schema of a board's file."""
    row, head = record(Result, OF_HEAD), record(_Head)
    # A row has every key; rows of summaries may leave out keys with defaults.
    head["properties"]["rows"] = {"type": "array", "items": row}
    head["required"] = [*head["required"], "rows"]
    return {"$schema": DIALECT, "title": "A board of vlbench", **head}


def task_schema(catalog: Catalog) -> Schema:
    """Return the schema of a task's file; params and data are those of shipped functions.

    A user's probe or loader may take any arguments. A set may change any key, and leave it out.
    """
    keys = record(TaskSpec, ELSEWHERE)
    keys |= {"patternProperties": {"^x-": {}}}
    keys["properties"]["data_set"] = {"type": "string"}
    changed = {name: {"anyOf": [one, {"type": "null"}]} for name, one in keys["properties"].items()}
    sets: Schema = {"type": "object", "minProperties": 1}
    sets["additionalProperties"] = {**keys, "properties": changed}
    keys["properties"]["sets"] = sets
    elsewhere = [{"required": [key]} for key in ("group", "extends", "data_set", "sets")]
    own = {"not": {"anyOf": elsewhere}}
    rules = [{"if": own, "then": {"required": [*REQUIRED]}}, *_rules(catalog, own)]
    return {"$schema": DIALECT, "title": "A task of vlbench", **keys, "allOf": rules}


def _rules(catalog: Catalog, own: Schema) -> list[Schema]:
    """Return the arguments of each shipped probe and loader."""
    rules: dict[str, Schema] = {}
    for name, spec in catalog.tasks.items():
        if spec.group:
            continue
        task = resolve_task(catalog, name, named=True, options=Options())
        params = record(task.probe, (task.under_test, *PROBE_FILLED))
        under_test = {"const": spec.under_test} if spec.under_test else False
        when = {"probe": {"const": spec.probe}, "under_test": under_test}
        rules[f"{spec.probe} {spec.under_test}"] = _rule(when, "params", params, own)
        data = record(task.loader, LOADER_FILLED)
        data["properties"] |= {"loader": {"type": "string"}, "regions": {}}
        named = {"properties": {"loader": {"enum": [*_spellings(spec.data["loader"])]}}}
        when = {"data": {**named, "required": ["loader"]}}
        rules[spec.data["loader"]] = _rule(when, "data", data, own)
    return list(rules.values())


def _spellings(loader: str) -> list[str]:
    """Return how a task's file may name a loader; the bare name `images` belongs to several."""
    whole, _, bare = loader_names(loader)
    return [whole] if bare == "images" else [whole, bare]


def _rule(when: Schema, key: str, arguments: Schema, own: Schema) -> Schema:
    """Return the rule for the arguments at a key; a task that takes over keys may lack some."""
    required = arguments.pop("required", [])
    then: Schema = {"properties": {key: arguments}}
    if required:
        whole = {"required": [key], "properties": {key: {"required": required}}}
        then = {"allOf": [then, {"if": own, "then": whole}]}
    named = [name for name, schema in when.items() if schema is not False]
    return {"if": {"properties": when, "required": named}, "then": then}
