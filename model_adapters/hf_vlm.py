"""Generative vision-and-language models of transformers: Qwen-VL, LLaVA, SmolVLM, PaliGemma, ..."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, Self

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.attention import overlap_shares
from vlbench.adapter_kit.cuts import (
    Attention,
    Positions,
    cut_copy,
    decoder_layers,
    parts_of,
    without,
)
from vlbench.adapter_kit.hugging_face import Checkpoint, require_checkpoint, transformers_object
from vlbench.adapter_kit.images import SquareView, image_features, images_of, resizing
from vlbench.adapter_kit.text import TextReader
from vlbench.adapter_kit.text_layers import TextLayers, TextStates
from vlbench.adapter_kit.vlm.asked_images import PREFIX_LM, AskedAlone, ImagePrompts, family
from vlbench.adapter_kit.vlm.image_tokens import ImageTokens, TokenView, locate
from vlbench.adapter_kit.vlm.prompts import AnswerIds, ChatTemplate, Prompts, TooLongError
from vlbench.adapter_kit.vlm.stages import PROJECTED, Stages
from vlbench.capabilities import OUTPUT, Cut, JointAttention, NoAnswer, Parts, Picture
from vlbench.errors import CannotDo, SpecError

Implementation = Literal["auto", "eager", "sdpa", "flash_attention_2"]
ImageVector = Literal["projected", "image_tokens", "last_token"]

# The question and the answer of VQAScore. Lin et al. 2024, arXiv:2404.01291, section 3.
QUESTION = 'Does this figure show "{}"? Please answer Yes or No.'

# The question while the stages of the model are read; it names no answer.
LAYER_PROMPT = "What does the image show?"


class HfVlm(TextLayers):
    """A language model that reads image tokens, prompted in its processor's chat template.

    PaliGemma has no template: its prompt is the unchanged question and a newline, as in the code of
    VQAScore.

    `score_answers` and `answer` use a question unchanged, without `question`. All types except
    PaliGemma can be prompted without a picture. Layers are the stages of the whole model for every
    `image_vector`: `tower.N`, `projected`, `language.N@image` and `language.N@end`, as in
    `vlbench.adapter_kit.vlm.stages`; `output` is the image's vector. Attention weights are always
    computed with eager attention.

    Scores, attention and regions see a picture in the processor's geometry, including tiles.
    `preprocess` instead squashes it to one square without tiles.

    The texts of a picture share the picture's keys and values. Memory is needed for the weights,
    and for keys and values of each token of a picture, once per text of the picture in one call.
    In PaliGemma keys and values depend on the text, so texts share only the image features: each
    text costs a whole pass of the language model, and attention costs layers x heads x tokens^2
    numbers for each of up to 4 texts at a time. As float32 in 18 layers of 8 heads these are 50 MB
    for a picture of 256 image tokens, 0.7 GB for 1,024 and 10 GB for 4,096. Untested types share
    nothing.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        init_seed: seed that draws random weights.
        question: question whose answer scores a text, with {} for the text; it may begin with a
            task that the model was trained on, as in `answer en {} ?`.
        answer: answer whose log-odds are the score; its probability is VQAScore.
        against: other answer, such as No: the score is the log-odds of `answer`'s fraction of both
            probabilities; None: no other answer.
        end_of_turn: whether the end of the turn counts as a token of an answer; if not, an
            answer is never less likely than a longer answer that begins with it.
        max_new_tokens: most tokens that `answer` writes.
        text_limit: most tokens of a text, whose rest is cut, and of a question, which is never cut:
            a longer question is not answered, and its answers are not scored.
        size: side in pixels of the square that `preprocess` makes; None takes the vision
            encoder's, or 448 if it accepts any size.
        layer: layer of the language model that gives the vectors of texts: 0 the embeddings, -1 the
            last.
        max_pixels: most pixels of a picture, for models that keep its size, such as Qwen-VL; None
            takes the processor's.
        image_vector: an image's vector: the mean of its `projected` tokens, the mean hidden
            state after `layer` at the `image_tokens`, or that at the prompt's `last_token`.
        layer_prompt: question while the stages of the model are read.
        attn: implementation of attention in transformers; `auto` takes SDPA in each part that
            has it.
    """

    require_weights = staticmethod(require_checkpoint)
    score_kind = "logit"
    _cut = Cut()

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "HuggingFaceTB/SmolVLM-256M-Instruct",
        weights: str = "pretrained",
        revision: str = "main",
        init_seed: int = 0,
        question: str = QUESTION,
        answer: str = "Yes",
        against: str | None = None,
        end_of_turn: bool = True,
        max_new_tokens: int = 32,
        text_limit: int = 512,
        size: int | None = None,
        layer: int = -1,
        max_pixels: int | None = None,
        image_vector: ImageVector = "projected",
        layer_prompt: str = LAYER_PROMPT,
        attn: Implementation = "auto",
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        _refuse_other_kinds(checkpoint)
        processor = checkpoint.load("AutoProcessor")
        if max_pixels is not None:
            _limit_pixels(processor.image_processor, max_pixels, checkpoint.name)
        self._kind: str = checkpoint.config.model_type
        self._family = family(self._kind)
        self._prompts = Prompts(processor, checkpoint.name, question, self._family.form)
        self._asked = Prompts(processor, checkpoint.name, "{}", self._family.form)
        self.reads_text_alone = self._kind not in PREFIX_LM
        if self.reads_text_alone:
            alone = partial(ChatTemplate, image=False)
            self._alone = Prompts(processor, checkpoint.name, "{}", alone)
        self._end_of_turn, self._max_new_tokens = end_of_turn, max_new_tokens
        self._answers = [self._prompts.answer(one) for one in (answer, against) if one is not None]
        for tokens in self._answers:
            _tell_of_parts(tokens, checkpoint.name)
        chosen = None if attn == "auto" else attn
        opened = checkpoint.open("AutoModelForImageTextToText", device, dtype, attention=chosen)
        self.model = opened.model
        words = opened.config.get_text_config()
        self.choose_layer(layer, words.num_hidden_layers, checkpoint.name)
        self._context: int = words.max_position_embeddings
        tokenizer = checkpoint.tokenizer(**self._family.tokenizer)
        self._reader = TextReader(tokenizer, min(text_limit, self._context), device)
        self.context_length: int = self._reader.limit
        self.count_tokens = self._prompts.count
        self._view = SquareView(self.model, processor, size)
        self._steps = resizing(self._view.size, squash=True)
        seen = self.model, self._view, self._steps
        output = self._output_stage(image_vector, checkpoint.name)
        self._stages = Stages(*seen, self._asked, layer_prompt, self._context, output)
        self._device = device

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the log-odds of VQAScore, float32 [N].

        VQAScore is the probability of the answer over the whole vocabulary, the geometric mean
        for an answer of several tokens; with `against`, its fraction of both probabilities.
        """
        scores = torch.empty(len(texts), device=self._device)
        more = max(len(answer.ids) for answer in self._answers)
        for places, prompt in self._group(pictures, texts, more):
            logs = prompt.mean_logs(self._answers)
            odds = logs[0] - logs[1] if len(logs) > 1 else logs[0] - (-logs[0].expm1()).log()
            scores[places] = odds.float()
        return scores

    @torch.no_grad()
    def score_answers(
        self, pictures: Sequence[Picture], questions: Sequence[str], answers: Sequence[str]
    ) -> Tensor:
        """Return the log-likelihood of each answer over the whole vocabulary, float32 [N].

        It is the sum over its tokens, including the end of the turn with `end_of_turn`. Raises
        DataError for a question that is too long.
        """
        scores = torch.empty(len(answers), device=self._device)
        for image, prompts, places in self._by_picture(pictures):
            read = {answers[i]: prompts.answer(answers[i], ends=self._end_of_turn) for i in places}
            more = max(len(answer.ids) for answer in read.values())
            prompt = self._ask_whole(prompts, image, [questions[i] for i in places], more)
            logs = prompt.answer_logs([(k, read[answers[i]]) for k, i in enumerate(places)])
            scores[places] = logs.float().to(self._device)
        return scores

    @torch.no_grad()
    def answer(self, pictures: Sequence[Picture], questions: Sequence[str]) -> list[str | NoAnswer]:
        """Return the model's answer, decoded greedily, without special tokens.

        A question that is too long has none.
        """
        answers: dict[int, str | NoAnswer] = {}
        for image, prompts, places in self._by_picture(pictures):
            answers |= {i: self._write(prompts, image, questions[i]) for i in places}
        return [answers[i] for i in range(len(questions))]

    def _write(self, prompts: Prompts, image: Image | None, question: str) -> str | NoAnswer:
        try:
            prompt = self._ask_whole(prompts, image, [question], self._max_new_tokens)
        except TooLongError as error:
            return NoAnswer("the question does not fit", str(error))
        ids = prompt.generate(self._max_new_tokens)
        return str(prompts.tokenizer.decode(ids, skip_special_tokens=True))

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each image token that has a position.

        It is a part of the attention to all that the token sees: the prompt before it, and in
        PaliGemma the whole prompt. A layer without softmax attention is omitted. Tokens outside a
        layer's window have attention 0.
        """
        attentions: dict[int, JointAttention] = {}
        for places, prompt in self._group(pictures, texts):
            placed = self._locate(prompt, images_of([pictures[places[0]]])[0])
            columns = torch.tensor(prompt.image)[placed.places]
            for i, weights, tail in zip(places, prompt.attention(), prompt.tails, strict=True):
                seen = weights[..., columns.to(weights.device)]
                spans = [span for span in tail.spans if span]
                attentions[i] = JointAttention(spans, seen, placed.boxes, whole=True)
        return [attentions[i] for i in range(len(texts))]

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, size, size] in [0, 1]: the whole image, squashed."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return the `image_vector` of square pictures, float32 [N, D]."""
        return self._stages.encode_at(pixels, [OUTPUT], self._cut)[OUTPUT]

    def layers(self) -> list[str]:
        """Return the stages of vision tower, projector and language model, and `output`."""
        return self._stages.names

    def encode_images_at(self, pixels: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested layer, from one pass."""
        return self._stages.encode_at(pixels, layers, self._cut)

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return the mean of the image tokens, weighted by the area that they share with a box.

        Each view of the picture has the same weight. A box that no token sees gets the vector of
        the token whose centre is nearest to the box's.
        """
        regions = []
        for image, corners in zip(images_of(pictures), boxes, strict=True):
            prompt = self._ask(self._prompts, image, [""])
            placed = self._locate(prompt, image)
            tokens = image_features(self.model, prompt.head.pixels()).float()
            vectors = tokens[placed.places.to(tokens.device)]
            regions.append(overlap_shares(corners, placed.boxes).to(vectors) @ vectors)
        return regions

    def read_texts(self, texts: Sequence[str]) -> TextStates:
        """Return the hidden states of texts without image or question.

        A token has seen the tokens before it; in PaliGemma the whole text.
        """
        batch, spans = self._reader.read(texts)
        batch = {name: batch[name] for name in ("input_ids", "attention_mask")}
        with without(self._cut, self._layers, Positions([])):
            output = self._family.states(self.model, batch)
        return TextStates(output, spans, batch["attention_mask"].bool())

    def parts(self) -> Parts:
        """Return the query heads of the language model's layers, and its kinds of positions.

        Raises CannotDo if a layer of the language model has no softmax attention.
        """
        return parts_of(self._layers(), "image", "text", "end")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have.

        Only tokens of the image are "image"; marks around them are "text". Raises CannotDo for
        looks if attention is neither eager nor SDPA.
        """
        kind = self.model.get_decoder().config._attn_implementation  # noqa: SLF001 - it has no other name
        if what.looks and kind not in {"eager", "sdpa"}:
            raise CannotDo(f"image tokens cannot be masked in attention by {kind}; use attn=sdpa")
        return cut_copy(self, what)

    def _layers(self) -> list[Attention]:
        return decoder_layers(self.model.get_decoder(), self._prompts.name)

    def _output_stage(self, image_vector: ImageVector, name: str) -> str:
        """Return the stage of an image's vector. Raises SpecError for the embeddings."""
        if image_vector == "projected":
            return PROJECTED
        if not self._before:
            what = f"layer {self._layer} of {name} is the embeddings, which have not seen the image"
            raise SpecError(f"{what}; use image_vector=projected or another layer")
        return f"language.{self._before}@{'image' if image_vector == 'image_tokens' else 'end'}"

    def _group(
        self, pictures: Sequence[Picture], texts: Sequence[str], more: int = 0
    ) -> Iterator[tuple[list[int], ImagePrompts]]:
        """Yield the indices of the texts of each image, and the image with these texts."""
        for image, _, places in self._by_picture(pictures, alone=False):
            cut = [self._prompts.cut(texts[i], self.context_length) for i in places]
            prompt = self._ask(self._prompts, image, cut)
            prompt.check_length(self._context, more)
            yield places, prompt

    def _by_picture(
        self, pictures: Sequence[Picture], *, alone: bool = True
    ) -> Iterator[tuple[Image | None, Prompts, list[int]]]:
        """Yield each image, its prompts and indices; the image is None for no picture."""
        may = alone and self.reads_text_alone
        is_alone = [may and entry.image is None and entry.regions is None for entry in pictures]
        if any(is_alone):
            yield None, self._alone, [i for i, flag in enumerate(is_alone) if flag]
        pictured = [i for i, flag in enumerate(is_alone) if not flag]
        of_image: dict[int, list[int]] = {}
        images = images_of([pictures[i] for i in pictured])
        for i, image in zip(pictured, images, strict=True):
            of_image.setdefault(id(image), []).append(i)
        for places in of_image.values():
            yield images[pictured.index(places[0])], self._asked, places

    def _ask_whole(
        self, prompts: Prompts, image: Image | None, questions: Sequence[str], more: int
    ) -> ImagePrompts:
        """Return an image with questions, which are never cut, since options stand at their end.

        Raises TooLongError if a question, or a prompt and `more` tokens, are too long.
        """
        count, longest = max(zip(prompts.count(questions), questions, strict=True))
        if count > self.context_length:
            most = f"{self.context_length} may be read"
            what = f"the question {longest!r:.60} has {count} tokens, {most}"
            way = f"raise the limit with --model-args text_limit={count}"
            if count > self._context:
                way = f"the model reads {self._context} tokens at most; ask shorter questions"
            raise TooLongError(f"{what}; {way}")
        prompt = self._ask(prompts, image, questions)
        prompt.check_length(self._context, more, f"shorten the question {longest!r:.60}")
        return prompt

    def _ask(self, prompts: Prompts, image: Image | None, texts: Sequence[str]) -> ImagePrompts:
        if image is None:
            return AskedAlone(self.model, prompts, texts, self._family.runner, self._cut)
        return ImagePrompts(self.model, prompts, image, texts, self._family.runner, self._cut)

    def _locate(self, asked: ImagePrompts, image: Image) -> ImageTokens:
        seen = TokenView(self._prompts.processor, asked.head.pixels(), image.size, len(asked.image))
        return locate(self._kind, seen)


def _refuse_other_kinds(checkpoint: Checkpoint) -> None:
    mapping = transformers_object("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING")
    if type(checkpoint.config) not in mapping:
        what = f"{checkpoint.name} is a model of type {checkpoint.config.model_type}"
        raise CannotDo(f"{what}; this adapter reads generative models of images and texts")


def _limit_pixels(images: Any, most: int, name: str) -> None:
    """Set an image processor that keeps a picture's size to scale it down to `most` pixels.

    Raises SpecError for any other processor, and for less than one token.
    """
    if not getattr(images, "merge_size", None):
        raise SpecError(f"max_pixels is for models that keep a picture's size, not {name}")
    least = (images.patch_size * images.merge_size) ** 2
    if most < least:
        raise SpecError(f"max_pixels {most} is less than one token of {name} ({least} pixels)")
    smallest = min(images.size["shortest_edge"], most)
    images.size = type(images.size)(shortest_edge=smallest, longest_edge=most)


def _tell_of_parts(answer: AnswerIds, name: str) -> None:
    """Warn of an answer that has several tokens."""
    if len(answer.ids) > 1:
        warnings.warn(
            f"'{answer.text}' is {len(answer.ids)} tokens of {name}: "
            "its score is the geometric mean of their probabilities",
            stacklevel=3,
        )
