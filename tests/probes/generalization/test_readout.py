import pytest
import torch
from fakes import PlantedFeatures, Reader, labelled_images, numbers_in
from scoring import with_scores

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.engine.engine import KnownModel
from vlbench.errors import CannotDo, SpecError, TooFewRows, WeightsError
from vlbench.probes.generalization import knn as knn_probe
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.linear import LinearTraining
from vlbench.probes.generalization.readout import SCORES, readout
from vlbench.probes.generalization.zero_shot import class_scores, zero_shot

knn = with_scores(knn_probe.knn)
transfer = with_scores(transfer_probe.transfer)

CLASSES, EACH, WIDTH = 4, 75, 16
DATA = labelled_images(*[EACH] * CLASSES)
LABEL = torch.tensor([x for name in ("train", "test") for x in labels(DATA.splits[name])])


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def states(part=slice(None), noise=0.7, seed=0):
    """Return a state of each image that has its class in some of the classes' directions."""
    known = torch.zeros(len(LABEL), WIDTH)
    known[range(len(LABEL)), LABEL] = 1.0
    apart = torch.zeros(WIDTH)
    apart[part] = 1.0
    return known * apart + noise * drawn(len(LABEL), WIDTH, seed=seed)


class Stages(PlantedFeatures):
    """Gives planted features at each layer, and planted logits."""

    def __init__(self, logits, **by_layer):
        self.by_layer, self.planted = by_layer, logits
        super().__init__([*by_layer.values()][-1])

    def layers(self):
        return [*self.by_layer]

    def encode_images_at(self, pixels, layers):
        return {name: self.by_layer[name][numbers_in(pixels)] for name in layers}

    def logits(self, pixels):
        return self.planted[numbers_in(pixels)]

    def class_names(self):
        return list(DATA.classes)


def noise_of(model):
    """Return a function that makes a network with the shape of a model's features, of noise."""
    layers = getattr(model, "by_layer", None)

    def draw(number):
        if layers is None:
            width = getattr(model, "features", states()).shape
            return PlantedFeatures(drawn(*width, seed=90 + number))
        noise = {name: drawn(*one.shape, seed=90 + number) for name, one in layers.items()}
        return Stages(model.planted, **noise)

    return draw


def run(model, data=DATA, untrained=None, **options):
    draw = untrained or noise_of(model)
    known = {id(model): KnownModel("planted", untrained=lambda number: (draw(number), ""))}
    engine = Engine(Engine.for_tests().settings, known=known)
    return readout(model, data, engine, **{"random_draws": 2} | options)


def value(outcome, metric, **at):
    return found(outcome, metric, **at).value


def found(outcome, metric, **at):
    (score,) = [s for s in outcome.scores if s.metric == metric and at.items() <= s.at.items()]
    return score


def holds_zero(score):
    low, high = score.ci95
    return low <= 0 <= high


def test_a_model_that_says_what_it_reads_has_no_gap_and_a_gap_is_neither_good_nor_bad():
    state = states()
    outcome = run(Stages(state[:, :CLASSES], output=state))
    assert holds_zero(found(outcome, "gap"))
    assert value(outcome, "said") == pytest.approx(value(outcome, "said_fitted"), abs=0.03)
    gaps = [score for score in outcome.scores if score.metric.startswith("gap")]
    assert [score.metric for score in gaps] == ["gap", "gap_beyond_random", "gap_to_said"]
    assert [score.higher_is_better for score in gaps] == [None] * 3


def test_priors_of_words_are_a_gap_to_what_is_said_and_not_to_its_fitted_scores():
    state = states()
    priors = torch.tensor([5.0, 0.0, 0.0, 0.0])
    outcome = run(Stages(state[:, :CLASSES] + priors, output=state))
    assert value(outcome, "said") < 0.3
    assert value(outcome, "said_fitted") > 0.6
    assert holds_zero(found(outcome, "gap"))
    assert found(outcome, "gap_to_said").ci95[0] > 0.3


def test_a_head_that_ignores_part_of_its_state_leaves_a_gap():
    state = states(noise=0.3)
    heard = state[:, :CLASSES] * torch.tensor([1.0, 1.0, 0.0, 0.0])
    outcome = run(Stages(heard, output=state), random_draws=3)
    assert found(outcome, "gap").ci95[0] > 0.1
    assert found(outcome, "gap_beyond_random").ci95[0] > 0.1
    planted = value(outcome, "read_best") - value(outcome, "said_fitted")
    assert value(outcome, "gap") == pytest.approx(planted)
    than = "than from the scores, and than from 3 networks with random weights"
    assert outcome.notes[0] == f"finding: at output, more is read {than}"
    assert outcome.notes[1] == "layer, chosen on 150 held-out train images: output"
    assert found(outcome, "gap_beyond_random").verdict == "finding"


def test_a_network_with_random_weights_has_a_gap_and_no_finding():
    # Two scores of four classes: less than what any features of the image have.
    images = states(noise=0.4)

    def draw(number):
        layer = (images @ drawn(WIDTH, WIDTH, seed=number)).relu()
        head = torch.zeros(WIDTH, CLASSES)
        head[:, :2] = drawn(WIDTH, 2, seed=50 + number)
        return Stages(layer @ head, output=layer)

    outcome = run(draw(0), untrained=draw, random_draws=5)
    gap, beyond = found(outcome, "gap"), found(outcome, "gap_beyond_random")
    assert gap.ci95[0] > 0.05
    assert gap.floors["random_weights"] == pytest.approx(gap.value - beyond.value)
    assert holds_zero(beyond)
    assert len(beyond.draws) == 5
    none = "no finding: the gap beyond 5 networks with random weights is not above 0"
    assert outcome.notes[0] == none
    assert [gap.verdict, beyond.verdict] == ["no finding"] * 2


def test_a_layer_that_is_a_function_of_the_scores_has_no_gap():
    scores = drawn(len(LABEL), CLASSES)
    # The class of each image becomes the place of its largest absolute score.
    largest = scores.abs().argmax(1)
    swapped = scores.clone()
    rows = torch.arange(len(LABEL))
    swapped[rows, LABEL], swapped[rows, largest] = scores[rows, largest], scores[rows, LABEL]
    layer = torch.cat([swapped.relu(), (-swapped).relu()], 1)
    outcome = run(Stages(swapped, output=layer))
    assert value(outcome, "said") < 0.7
    assert value(outcome, "said_fitted") > 0.85
    assert found(outcome, "gap").ci95[0] < 0.05


@pytest.mark.parametrize("error", [CannotDo("takes no weights"), WeightsError("no such file")])
def test_without_a_network_with_random_weights_there_is_no_score(error):
    def draw(_):
        raise error

    with pytest.raises(CannotDo, match=rf"{error}\); give an adapter class that takes"):
        run(Stages(states()[:, :CLASSES], output=states()), untrained=draw)


def test_where_reading_is_lost_is_named_by_the_layer_before():
    state, nothing = states(noise=0.3), drawn(len(LABEL), WIDTH, seed=1)
    model = Stages(nothing[:, :CLASSES], early=states(noise=1.0), late=state, output=nothing)
    outcome = run(model)
    lost = found(outcome, "read_lost")
    assert lost.higher_is_better is None
    assert lost.at == {"layer": "late"}
    assert lost.ci95[0] > 0.5
    read = [value(outcome, "read", layer=name) for name in ("late", "output")]
    assert lost.value == pytest.approx(read[0] - read[1])


def test_test_images_take_no_part_in_the_choice_of_a_layer():
    state, nothing = states(noise=0.3), drawn(len(LABEL), WIDTH, seed=1)
    is_test = (torch.arange(len(LABEL)) >= CLASSES * EACH)[:, None]
    in_train, in_test = torch.where(is_test, nothing, state), torch.where(is_test, state, nothing)
    outcome = run(Stages(nothing[:, :CLASSES], early=in_train, output=in_test))
    assert "layer, chosen on 150 held-out train images: early" in outcome.notes
    assert value(outcome, "read", layer="early") < 0.4
    assert value(outcome, "read_best") < 0.4


def test_layers_are_those_that_are_asked_for():
    state = states()
    model = Stages(state[:, :CLASSES], early=state, late=state, output=state)
    outcome = run(model, layers=["late"])
    assert {s.at["layer"] for s in outcome.scores if "layer" in s.at} <= {"late"}
    with pytest.raises(CannotDo, match="gives no layers"):
        run(Towers(state), layers=["late"])


def test_what_is_said_is_split_by_whether_the_class_is_read():
    state = states(noise=0.4)
    outcome = run(Stages(state[:, :CLASSES] + 0.5 * drawn(len(LABEL), CLASSES), output=state))
    parts = [found(outcome, f"said_where_{name}") for name in ("read", "not_read")]
    read = round(value(outcome, "read_best") * 300)
    assert [part.n for part in parts] == [read, 300 - read]
    mean = sum(part.value * part.n for part in parts) / 300
    assert mean == pytest.approx(value(outcome, "said"))
    assert [(part.chance, bool(part.no_chance)) for part in parts] == [(None, True)] * 2


def test_standardised_features_are_read_as_transfer_reads_them_and_neighbours_as_knn():
    state = states()
    train = state[: CLASSES * EACH]
    state = (state - train.mean(0)) / train.std(0, correction=0)
    model = Stages(state[:, :CLASSES], output=state)
    outcome = run(model, k=5)
    training = LinearTraining(optimizer="lbfgs")
    (read, *_) = transfer(model, DATA, Engine.for_tests(), training=training).scores
    (near,) = knn(model, DATA, Engine.for_tests(), k=[5]).scores
    assert value(outcome, "read", layer="output") == read.value
    assert found(outcome, "read_knn").at == {"layer": "output", "k": 5}
    assert value(outcome, "read_knn") == near.value


def test_the_scale_of_features_and_scores_changes_nothing():
    state = states()
    plain = run(Stages(state[:, :CLASSES], output=state))
    small = run(Stages(state[:, :CLASSES] / 100 - 30, output=100 * state + 7))
    for metric in ("gap", "said_fitted", "read_best"):
        assert value(small, metric) == pytest.approx(value(plain, metric), abs=0.004)


def test_raw_pixels_are_a_floor_of_what_is_read_and_not_of_what_is_said():
    # The class of a planted image is its red.
    data = labelled_images(40, 40)
    outcome = run(Towers(0.1 * drawn(160, WIDTH)), data)
    assert found(outcome, "read").floors["raw_pixels"] > 0.8
    assert "raw_pixels" not in found(outcome, "said").floors


class Towers(PlantedFeatures):
    """Compares images with the axis of each class."""

    def encode_texts(self, texts):
        return torch.eye(WIDTH)[[int("".join(filter(str.isdigit, text))) for text in texts]]

    def similarity(self, images, texts):
        return images @ texts.T


class Deaf(Towers):
    """Finds all texts alike."""

    def similarity(self, images, texts):
        return torch.ones(len(images), len(texts))


class Likelihoods(Reader):
    """Scores the answer of each class by the image's state."""

    def __init__(self, state):
        self.state = state

    def encode_images(self, pixels):
        return self.state[numbers_in(pixels)]

    def score_answers(self, pictures, _questions, answers):
        rows = numbers_in(torch.stack([self.preprocess(one.image) for one in pictures]))
        classes = [int("".join(filter(str.isdigit, answer))) for answer in answers]
        return self.state[rows, classes] - 9


class Pairs(Likelihoods):
    """Scores pairs of an image and a text."""

    score_kind = "logit"
    score_answers = None

    def score_pairs(self, pictures, texts):
        return Likelihoods.score_answers(self, pictures, [], texts)


@pytest.mark.parametrize(
    ("kind", "asked_by"), [(Towers, "similarity"), (Likelihoods, "likelihood"), (Pairs, "score")]
)
def test_what_is_said_is_what_zero_shot_finds_whatever_the_model_scores_by(kind, asked_by):
    data = labelled_images(*[30] * CLASSES)
    label = torch.arange(CLASSES).repeat_interleave(30).repeat(2)
    model = kind(torch.eye(WIDTH)[label] + 0.7 * drawn(len(label), WIDTH))
    outcome = run(model, data, k=3)
    own = zero_shot(model, data, Engine.for_tests())
    assert outcome.asked_by == own.asked_by == asked_by
    assert value(outcome, "said") == value(own, "accuracy")
    prompts = {"prompts": "a photo of a {}.", "class_names": None, "question": ""}
    found_scores = class_scores(model, data, "train", Engine.for_tests(), **prompts).scores
    assert found_scores.shape == (120, CLASSES)


def test_a_similarity_that_depends_on_other_images_is_refused():
    class Centred(Towers):
        def similarity(self, images, texts):
            return super().similarity(images, texts) - images.mean(0) @ texts.T

    with pytest.raises(SpecError, match=r"Centred\.similarity must depend only on the two"):
        run(Centred(states()))


def test_a_row_says_where_raw_pixels_are_read_as_well():
    data = labelled_images(40, 40)
    state = torch.eye(WIDTH)[torch.arange(2).repeat_interleave(40).repeat(2)] + drawn(160, WIDTH)
    outcome = run(Deaf(state), data)
    assert value(outcome, "read_best") < 1
    note = "raw pixels reach the accuracy at output, so it does not show what the model learned"
    assert note in outcome.notes


def test_what_random_weights_read_is_a_floor_of_the_same_layer():
    state, nothing = states(noise=0.3), drawn(len(LABEL), WIDTH, seed=1)
    model = Stages(nothing[:, :CLASSES], early=state, output=states(noise=0.3, seed=2))
    outcome = run(model, untrained=lambda _: Stages(nothing, early=state, output=nothing))
    early, output = (found(outcome, "read", layer=name) for name in ("early", "output"))
    assert early.floors["random_weights"] == early.value > 0.9
    assert output.floors["random_weights"] < 0.4
    assert "random_weights" in found(outcome, "read_best").floors
    assert "random_weights" not in found(outcome, "said_fitted").floors
    (note,) = [note for note in outcome.notes if note.startswith("random weights reach")]
    assert note.endswith("the accuracy at early, so it does not show what the model learned")


def test_the_best_stage_and_the_scores_are_read_of_parts_of_the_train_images():
    state = states(noise=0.3)
    heard = state[:, :CLASSES] * torch.tensor([1.0, 1.0, 0.0, 0.0])
    outcome = run(Stages(heard, output=state))
    rows = outcome.artifacts["read_by_train_images"].to_pylist()
    sizes = [37, 75, 150, 300]
    stages = [(row["stage"], row["train_images"]) for row in rows]
    assert stages == [(stage, size) for stage in ("output", SCORES) for size in sizes]
    assert rows[3]["accuracy"] == value(outcome, "read_best")
    assert rows[7]["accuracy"] == value(outcome, "said_fitted")
    assert rows[0]["accuracy"] < rows[3]["accuracy"]


def test_a_part_of_the_train_images_without_a_class_is_left_out():
    data = labelled_images(*[5] * CLASSES)
    outcome = run(Towers(states()[: 2 * 5 * CLASSES]), data, k=1)
    rows = outcome.artifacts["read_by_train_images"].to_pylist()
    assert {row["train_images"] for row in rows} == {5, 10, 20}


def test_a_model_that_scores_no_classes_cannot_be_read_out():
    with pytest.raises(CannotDo, match="does not score classes, so there is"):
        run(PlantedFeatures(states()))


def test_a_class_of_one_train_image_cannot_be_held_out():
    data = labelled_images(1, 1, test=[5, 5])
    model = Towers(drawn(12, WIDTH))
    with pytest.raises(TooFewRows, match="train image"):
        run(model, data, k=1)
