"""Similarity of an image and its caption in BERT-gen, layer by layer.

arXiv:2002.10832, section "Cross-modal alignment": the mean cosine between the vectors of [CLS] for
only the image and for only the caption. Vectors of [CLS] have a common direction for all inputs, so
the floor is the similarity to another image's caption. The paper's network with random weights has
a similarity of about 0. No initialisation that reproduces this was found: the embedding of [CLS] is
the same in both inputs, and its vectors stay similar. Networks of BERT's size have .86 to .97 after
the last layer, for weights with a standard deviation of .02 to 1 and for PyTorch's initialisation
(three seeds each); with the objects of this probe, one network had .59.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from vlbench.metrics.intervals import Floats
from vlbench.probes.question_generation.bert_gen import BertGen, Inputs, Source
from vlbench.probes.question_generation.inputs import ObjectReader, Texts
from vlbench.probes.question_generation.steps import STEPS, Asker, QuestionInputs, Trainings

RANDOM = "random"

# The steps whose similarities are compared in the paper.
COMPARED = ("1", "2", "3")


@dataclass(frozen=True)
class CrossModalReader:
    """Encodes images and captions separately with the same network."""

    network: BertGen
    texts: Texts
    reader: ObjectReader

    def cosines(
        self,
        regions: Sequence[Any],
        names: Sequence[str],
        captions: Sequence[str],
        others: Sequence[str],
    ) -> list[Tensor]:
        """Return the cosines of each image with its caption and another caption, [2, layers]."""
        images = self._vectors([Source(objects=o) for o in self.reader.read(regions, names)])
        texts = [
            self._vectors([Source(caption=tokens) for tokens in self.texts.captions(some)])
            for some in (captions, others)
        ]
        pairs = torch.stack([cosine_similarity(images, vectors, -1) for vectors in texts], 1)
        return list(pairs.double().cpu())

    @torch.no_grad()
    def _vectors(self, sources: Sequence[Source]) -> Tensor:
        """Return the vectors of [CLS] after each layer, [N, layers, H]."""
        embedded, valid = prefix = self.network.read(sources)
        steps = torch.arange(0, device=valid.device)
        sees = valid[:, None].expand(-1, valid.shape[1], -1)
        inputs = Inputs(embedded, self.network.positions(prefix, steps), sees)
        states = self.network.module.base_model(
            **self.network.arguments(inputs), output_hidden_states=True
        ).hidden_states
        return torch.stack([state[:, 0] for state in states[1:]], 1)


def similarities(trainings: Sequence[Trainings], inputs: QuestionInputs) -> dict[str, Floats]:
    """Return cosines float64 [seeds, N, 2, layers] with the image's and another caption, by step.

    Steps are a transformer with random weights, and steps 1, 2 and 3; with random weights and after
    step 1, W has its initial values.
    """
    cosines = {RANDOM: [_random_cosines(training, inputs) for training in trainings]}
    for step in STEPS:
        if step.name in COMPARED:
            cosines[step.name] = [
                _cosines(one, one.asker(step), inputs, one.key(step)) for one in trainings
            ]
    return {name: np.stack(by_seed) for name, by_seed in cosines.items()}


def _random_cosines(trainings: Trainings, inputs: QuestionInputs) -> Floats:
    asker = trainings.asker(STEPS[0], untrained=True)
    random_transformer(asker.network, trainings.seed)
    return _cosines(trainings, asker, inputs, trainings.key(STEPS[0]) | {"step": RANDOM})


def _cosines(
    trainings: Trainings, asker: Asker, inputs: QuestionInputs, key: Mapping[str, Any]
) -> Floats:
    reader = CrossModalReader(asker.network, asker.texts, asker.reader)
    others = inputs.with_other_captions().captions
    by_image = trainings.engine.map(
        reader.cosines, *inputs, others, key={**key, "asked": "similarity"}
    )
    cosines: Floats = torch.stack(by_image).numpy()
    return cosines


def random_transformer(network: BertGen, seed: int) -> BertGen:
    """Replace a network's module in place by a module with weights drawn from the seed."""
    module = network.module
    weight = next(module.parameters())
    with torch.random.fork_rng([weight.device] if weight.device.type == "cuda" else []):
        torch.manual_seed(seed)
        drawn = type(module)(module.config)
    network.module = drawn.to(weight.device, weight.dtype)
    return network.eval()
