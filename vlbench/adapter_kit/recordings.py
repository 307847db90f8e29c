"""Looks up the recorded answers to items: by their names, by what a record says, or by index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

import yaml

from vlbench.capabilities import Asked, Reply
from vlbench.data.coco_files import is_number, read_text
from vlbench.data.names import normal_form
from vlbench.data.recording_files import (
    Columns,
    Record,
    Says,
    answer_files,
    is_sugar_crepe,
    labels_of,
    name_order,
    names_of_items,
    read_records,
    split_names,
)
from vlbench.errors import DataError, SpecError, unknown
from vlbench.metrics.parsing import read_reply
from vlbench.metrics.replies import LABELS, place_of, words
from vlbench.system.digests import digest

__all__ = ["Columns", "Recordings", "read_about", "split_names"]

# The keys that describe a recording, and the value of a key that is not given.
ABOUT = ("recorded_by", "recorded_on", "prompt", "source", "caution")
UNKNOWN = "unknown"

REMEDY = "its order or numbering is not that of the data"


class LookedUp(NamedTuple):
    """The replies to items, and counts of answers that were not used or read differently.

    `notes` state how many answers were not used, each with an example.
    """

    replies: list[list[Reply]]
    counts: dict[str, int]
    notes: list[str]


class Recordings:
    """The answers in a file or a folder, and the labels that name an option in them.

    Raises SpecError if no file of answers exists, and for other labels than a file states, and
    DataError for a file that does not fit.
    """

    def __init__(self, path: Path, columns: Columns, labels: str) -> None:
        files = [*answer_files(path), *([columns.questions] if columns.questions else [])]
        self.digests = [digest(file) for file in files]
        stated = "brackets" if is_sugar_crepe(path) else labels_of(path)
        if stated and labels not in {stated, "letters"}:  # the default
            raise SpecError(f"labels is {labels}, but {path.name} names options by {stated}")
        self.labels = stated or labels
        self._dropped = Counter[str]()
        self._records = [*read_records(path, columns, self._dropped, [])]

    def look_up(self, items: Sequence[Asked]) -> LookedUp:
        """Return the replies to items, and which answers were unused or read differently.

        An item that is given by its image and texts and occurs twice gets the first answer, and its
        second occurrence the second. The counts are of answers that have no item; repeated answers
        to an item in the same order; and answers that the authors of the file read as another
        option. Raises DataError for a record that describes another item than its index names, for
        an index beyond the data, and for answers to an item in two files.
        """
        records = (items and _with_order(self._records, items)) or self._records
        places = _places(records, items)
        by_item: list[dict[Any, Record]] = [{} for _ in items]
        strange, repeated = list[Record](), list[Record]()
        for place, record in zip(places, records, strict=True):
            if place is None:
                strange.append(record)
                continue
            first = by_item[place].setdefault(_order_of(record, items[place]), record)
            if first is not record:
                if first.file != record.file:
                    names = f"{first.file} and {record.file}"
                    raise DataError(f"two files answer {_name(items[place])}: {names}; give one")
                repeated.append(record)
        replies, differ = list[list[Reply]](), 0
        for item, of_item in zip(items, by_item, strict=True):
            replies.append([_reply(order, record, item) for order, record in of_item.items()])
            pairs = zip(replies[-1], of_item.values(), strict=True)
            differ += sum(self._differs(record, reply, item) for reply, record in pairs)
        counts = {
            "answers_without_item": len(strange),
            "repeated_answers": len(repeated),
            "read_otherwise": differ,
        }
        which = f"no such item among those asked (such as {items[0].image})" if items else ""
        notes = [
            *self._not_used(strange, which),
            *self._not_used(repeated, "the item has an answer already"),
        ]
        return LookedUp(replies, counts | self._dropped, notes)

    def _not_used(self, records: Sequence[Record], why: str) -> list[str]:
        """Return a note on answers with an example; none if there are none."""
        n = f"{len(records):,} of {len(self._records):,}"
        return [f"{n} not used: {why:.160}, for example {_title(one):.160}" for one in records[:1]]

    def _differs(self, record: Record, reply: Reply, item: Asked) -> bool:
        """Return whether the file's authors read an answer as another option than we do."""
        if record.reading is None or not isinstance(reply.said, str):
            return False
        texts, labels = [item.texts[number] for number in reply.order], LABELS[self.labels]
        place = read_reply(reply.said, labels(texts), in_words=labels is words).place
        return (-1 if place is None else reply.order[place]) != record.reading


def read_about(file: Path, *, is_named: bool) -> dict[str, str]:
    """Return the description of a recording in a YAML file; `unknown` for keys not given.

    Raises SpecError for a named file that is absent, for other keys, and for values that are not
    text.
    """
    if not (is_named or file.is_file()):
        return dict.fromkeys(ABOUT, UNKNOWN)
    try:
        content = yaml.safe_load(read_text(file))
    except yaml.YAMLError as error:
        raise SpecError(f"{file.name} is not YAML: {error!s:.200}") from error
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise SpecError(f"{file.name} must give a text for each of {', '.join(ABOUT)}")
    if other := [str(key) for key in content if key not in ABOUT]:
        raise SpecError(f"{file.name}: {unknown('key', other[0], ABOUT)}")
    return {key: content.get(key, UNKNOWN) for key in ABOUT}


def _with_order(records: Sequence[Record], items: Sequence[Asked]) -> list[Record]:
    """Return the records by the items that were made of them; empty if items are from elsewhere.

    Such an item is named as the log names it, is in the place of this name in the order of names,
    and has the question and the options of its record in their order.
    """
    names, by_name = names_of_items(records), {item.image: item for item in items}
    of_name = dict(zip(names, records, strict=True))
    in_order = sorted(names, key=name_order)
    for item in items:
        is_named = 0 <= item.place < len(names) and in_order[item.place] == item.image
        says = of_name[item.image].says if is_named else Says()
        # The letters that options carry were left out of the item.
        alike = map(str.endswith, map(_plain, says.options), map(_plain, item.texts))
        is_same = says.question == item.question and len(says.options) == len(item.texts)
        if not (is_named and is_same and all(alike)):
            return []
    abouts = [_about_item(by_name[name]) if name in by_name else (name, ()) for name in names]
    return [
        record._replace(about=about, order=tuple(range(len(record.says.options))))
        for record, about in zip(records, abouts, strict=True)
    ]


def _places(records: Sequence[Record], items: Sequence[Asked]) -> list[int | None]:
    """Return the position of each record's item among the items; None if it is not among them.

    Records by index must fit what they say of their items. The documents of a log may be in another
    order than the data: if they do not fit, they are matched by what the log says of them.
    """
    if not records or not items:
        return [None] * len(records)
    if isinstance(records[0].about, tuple):
        return _by_names(records, items)
    # Categories are compared only if the recording and the data share names of them.
    names = {record.says.category for record in records} & {asked.category for asked in items}
    if not names - {""}:
        items = [item._replace(category="") for item in items]
    if records[0].about is not None:
        places, why = _by_index(records, items)
        if not why:
            return places
        if not any(entry.is_log and (entry.says.question or entry.says.image) for entry in records):
            raise DataError(why)
    else:
        why = "the log does not number its items as the data do"
    return _by_description(records, items, why)


def _by_names(records: Sequence[Record], items: Sequence[Asked]) -> list[int | None]:
    """Return the places of items by image and texts; the k-th record is of the k-th such item."""
    named: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        named.setdefault(_form(_about_item(item)), []).append(place)
    seen, places = Counter[Any](), list[int | None]()
    for record in records:
        about = _form(cast("tuple[str, tuple[str, ...]]", record.about))
        candidates, key = named.get(about, []), (about, record.order)
        places.append(candidates[min(seen[key], len(candidates) - 1)] if candidates else None)
        seen[key] += 1
    return places


def _by_index(records: Sequence[Record], items: Sequence[Asked]) -> tuple[list[int | None], str]:
    """Return the places of items by their index in the data, and why they cannot be right."""
    at = {item.place if item.place >= 0 else i: i for i, item in enumerate(items)}
    is_whole = [*at] == [*range(len(items))]
    places = [at.get(cast("int", record.about)) for record in records]
    for place, record in zip(places, records, strict=True):
        if place is None and is_whole:
            what = f"{record.file}: no item {record.about}; the items are 0 to {len(items) - 1}"
            return places, f"{what}, so {REMEDY}"
        if place is not None and (difference := _difference(record.says, items[place])):
            where = f"{record.file}, item {record.about}"
            return places, f"{where}: {difference}, so {REMEDY}"
    return places, ""


def _by_description(
    records: Sequence[Record], items: Sequence[Asked], why: str
) -> list[int | None]:
    """Return the places of items by what records say of them.

    Raises DataError, with the reason why the index cannot be used, if this names no item at all, or
    several for one record.
    """
    of_item = (
        _first_key([item.question for item in items]),
        _first_key([_stem(o.image) for o in items]),
    )
    by_question, by_image = ({k: v for k, v in table.items() if k} for table in of_item)
    # A question such as "Is there a person in the image?" may be asked about hundreds of images.
    by_both = _first_key([f"{_stem(item.image)}\n{item.question}" for item in items])
    places = list[int | None]()
    for record in records:
        near = by_both.get(_plain(f"{_stem(record.says.image)}\n{record.says.question}"))
        near = by_question.get(_plain(record.says.question)) if near is None else near
        near = by_image.get(_stem(record.says.image), []) if near is None else near
        fitting = [place for place in near if not _difference(record.says, items[place])]
        if len(fitting) > 1:
            examples = f"{_name(items[fitting[0]])} and {_name(items[fitting[1]])}"
            raise DataError(f"{why}; its description fits several items, such as {examples}")
        places.append(fitting[0] if fitting else None)
    if not any(place is not None for place in places):
        raise DataError(why)
    return places


def _first_key(keys: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of each key."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(_plain(key), []).append(place)
    return places


def _difference(says: Says, item: Asked) -> str:
    """Return how a record's description differs from an item; empty if it does not."""
    recorded, question = _plain(says.question), _plain(item.question)
    if recorded and question and question not in recorded and recorded not in question:
        return _both("question", says.question, item.question)
    if says.image and not _is_same_image(says.image, item.image):
        return _both("image", says.image, item.image)
    if says.options and sorted(map(_plain, says.options)) != sorted(map(_plain, item.texts)):
        return _both("options", ", ".join(says.options), ", ".join(item.texts))
    if says.category and item.category and says.category != item.category:
        return _both("category", says.category, item.category)
    return ""


def _both(what: str, recorded: str, of_data: str) -> str:
    return f"the recording's {what} is {recorded!r:.100}, the data's {of_data!r:.100}"


def _is_same_image(name: str, other: str) -> bool:
    """Return whether two names are of one image: the same stem, or one of COCO's numbers."""
    first, second = _stem(name), _stem(other)
    numbers = [re.sub(r"^.*?0*(\d+)$", r"\1", text) for text in (first, second)]
    of_coco = first.isdecimal() or second.isdecimal()
    return first == second or (of_coco and numbers[0] == numbers[1])


def _stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _plain(text: str) -> str:
    """Return a text in the form in which texts of items are compared."""
    return " ".join(normal_form(text).split())


def _about_item(item: Asked) -> tuple[str, tuple[str, ...]]:
    """Return the `about` of an item's records."""
    return item.image, (*([item.question] if item.question else []), *item.texts)


def _form(about: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
    """Return an image's name and texts in the form in which they are compared."""
    return normal_form(about[0]), (*map(_plain, about[1]),)


def _title(record: Record) -> str:
    """Return how a record names its item: by its image or index, or by the question."""
    if isinstance(record.about, tuple):
        return record.about[0]
    return record.says.question if record.about is None else str(record.about)


def _name(item: Asked) -> str:
    return f"{_about_item(item)!s:.120}"


def _order_of(record: Record, item: Asked) -> tuple[int, ...] | None:
    """Return the order in which a record's options were shown, if it is known."""
    if record.order or not record.says.options:
        return record.order
    texts = [*map(_plain, item.texts)]
    return tuple(texts.index(_plain(option)) for option in record.says.options)


def _reply(order: tuple[int, ...] | None, record: Record, item: Asked) -> Reply:
    """Return a record's reply; scores of options shown in another order are sorted."""
    content, count = record.said, len(item.texts)
    shown = order or tuple(range(len(content) if isinstance(content, list) else count))
    target = _target(record.says.target, [item.texts[number] for number in shown if number < count])
    if isinstance(content, list) and not record.order and len(content) == len(shown):
        content = [content[shown.index(number)] for number in range(len(content))]
        shown = tuple(range(len(content)))
    return Reply(shown, content, target, record.reading)


def _target(stated: str, texts: Sequence[str]) -> str:
    """Return the text of the right option that a recording states; empty if it is none of them.

    It is a text, a letter, or an index from 0, as in lm-eval.
    """
    if not stated:
        return ""
    try:
        return texts[place_of(texts, stated)]
    except ValueError:
        is_index = is_number(stated) and int(stated) < len(texts)
        return texts[int(stated)] if is_index else ""
