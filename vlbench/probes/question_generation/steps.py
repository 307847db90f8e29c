"""The three steps of arXiv:2002.10832, section "Experimental Protocol", and its two ablations.

Each step is trained when it is first needed, and stored; a step that starts from other steps takes
the weights that they have trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import MaskedLanguageModel
from vlbench.data.records import Column, value_column
from vlbench.engine import Engine
from vlbench.probes.question_generation.bert_gen import BertGen, Source, greedy
from vlbench.probes.question_generation.inputs import (
    AskedImages,
    ObjectReader,
    QuestionPair,
    StepExamples,
    Texts,
)
from vlbench.probes.question_generation.measures import other_rows
from vlbench.probes.question_generation.training import (
    BertGenTraining,
    StepTraining,
    TrainedParts,
    load,
)


class Step(NamedTuple):
    """The inputs and trained weights of a step, and the steps whose weights it starts from."""

    name: str
    images: bool
    captions: bool
    learns: TrainedParts
    after: tuple[str, ...] = ()


STEPS = (
    Step("1", images=False, captions=True, learns=TrainedParts(language=True, projection=False)),
    Step("2", True, False, TrainedParts(language=False, projection=True), after=("1",)),
    Step("2 unfrozen", True, False, TrainedParts(language=True, projection=True), after=("1",)),
    Step("3", True, True, TrainedParts(language=True, projection=True), after=("1", "2")),
    Step("3 from scratch", True, True, TrainedParts(language=True, projection=True)),
)


class TrainingData(NamedTuple):
    """The training data of the steps, its digest, and the width of a region's vector."""

    pairs: Sequence[QuestionPair]
    objects: Sequence[Tensor]
    digest: str
    width: int


class QuestionInputs(NamedTuple):
    """The images of a split for question generation: regions, names, and first captions."""

    regions: Column
    names: Column
    captions: Column

    @classmethod
    def of(cls, images: AskedImages) -> QuestionInputs:
        """Return the inputs of images with questions."""
        captions = [group[0] for group in images.captions]
        return cls(
            images.split["regions"],
            value_column(images.ids, "text"),
            value_column(captions, "text"),
        )

    def with_other_images(self) -> QuestionInputs:
        """Return each caption with another image, drawn by a fixed seed."""
        order = other_rows(len(self.names))
        return self._replace(regions=self.regions.select(order), names=self.names.select(order))

    def with_other_captions(self) -> QuestionInputs:
        """Return each image with the caption of the same other image."""
        order = other_rows(len(self.names))
        return self._replace(captions=self.captions.select(order))

    def select(self, rows: Sequence[int]) -> QuestionInputs:
        """Return some of the rows."""
        return QuestionInputs(*(column.select(rows) for column in self))


@dataclass(frozen=True)
class Asker:
    """Generates a question for each image, caption, or both."""

    network: BertGen
    step: Step
    texts: Texts
    reader: ObjectReader

    def ask(
        self, regions: Sequence[Any], names: Sequence[str], captions: Sequence[str]
    ) -> list[str]:
        """Return a question for each image and caption; the step may read only one of them."""
        sources = self.sources(regions, names, captions)
        questions = greedy(self.network, sources, self.texts.most)
        return [self.texts.question(tokens) for tokens in questions]

    def sources(
        self, regions: Sequence[Any], names: Sequence[str], captions: Sequence[str]
    ) -> list[Source]:
        """Return X of each image and its caption."""
        nothing = [None] * len(names)
        objects = self.reader.read(regions, names) if self.step.images else nothing
        words = self.texts.captions(captions) if self.step.captions else nothing
        return [Source(*pair) for pair in zip(objects, words, strict=True)]


class Trainings:
    """The steps of one seed, which draws W and the order of the questions."""

    def __init__(
        self,
        model: MaskedLanguageModel,
        engine: Engine,
        material: TrainingData,
        training: BertGenTraining,
        texts: Texts,
        *,
        seed: int,
    ) -> None:
        self._model, self.engine, self._material = model, engine, material
        self._training, self._texts, self.seed = training, texts, seed
        self._trained: dict[str, Mapping[str, Tensor]] = {}

    def untrained(self) -> BertGen:
        """Return BERT-gen with the weights of the model and initial W."""
        tokenizer, module = self._model.masked_lm()
        rng = torch.Generator().manual_seed(self.seed)
        return BertGen(tokenizer, self.engine.copy(module), self._material.width, rng).eval()

    def network(self, step: Step) -> BertGen:
        """Return BERT-gen after a step, trained now if it is not stored."""
        network = self._start(step)
        load(network, self._weights(step))
        return network.eval()

    def key(self, step: Step) -> dict[str, Any]:
        """Return everything that the weights of a step depend on, except code."""
        return {
            "what": "BERT-gen",
            "model": self._model,
            "step": step.name,
            "material": self._material.digest,
            "seed": self.seed,
            "device": self.engine.device.type,
            **self._training._asdict(),
        }

    def questions(self, step: Step, after: Step, inputs: QuestionInputs) -> list[str]:
        """Return a question per image, from the inputs of `step`, with weights `after` a step."""
        asker = self.asker(step, after)
        regions = inputs.regions if step.images else value_column([None] * len(inputs.names))
        key = {**self.key(after), "asked": step.name, "most": self._texts.most}
        return self.engine.map(asker.ask, regions, inputs.names, inputs.captions, key=key)

    def asker(self, step: Step, after: Step | None = None, *, untrained: bool = False) -> Asker:
        """Return an asker with a step's inputs, after its training, another step's, or none."""
        network = self.untrained() if untrained else self.network(after or step)
        # The number of regions was checked before.
        return Asker(network, step, self._texts, ObjectReader(None))

    def _weights(self, step: Step) -> Mapping[str, Tensor]:
        if step.name not in self._trained:
            make = partial(self._training_of, step)
            what = f"step {step.name}, seed {self.seed}"
            self._trained[step.name] = self.engine.train(self.key(step), make, what)
        return self._trained[step.name]

    def _training_of(self, step: Step) -> StepTraining:
        objects = self._material.objects if step.images else None
        examples = StepExamples(self._material.pairs, objects, step.captions)
        network = self._start(step)
        sharing = self.engine.sharing
        return StepTraining(network, examples, step.learns, self._training, self.seed, sharing)

    def _start(self, step: Step) -> BertGen:
        """Return BERT-gen with the initial weights of a step."""
        network = self.untrained()
        for earlier in STEPS:
            if earlier.name in step.after:
                load(network, self._weights(earlier))
        return network
