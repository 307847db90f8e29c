from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import Word2Vec
from gensim.test.utils import datapath

from vlbench.data.corpora import Corpus
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import DataError
from vlbench.probes.generalization.skip_gram import (
    CorpusPieces,
    FrozenVectors,
    SkipGram,
    make_untrained,
    read_vocabulary,
    require_unmoved,
    word_vectors,
)
from vlbench.probes.generalization.word_evaluation import keyed_vectors, similarity

SETTINGS = SkipGram(vector_size=8, epochs=3)


def corpus(folder, *lines):
    (folder / "corpus.txt").write_text("\n".join(lines))
    return column(folder / "corpus.txt")


def column(path):
    return Column(str(path), "value", [Corpus(path)], [0])


def babble(folder, documents=60):
    """Write documents of 30 words, drawn from wa to wz, the first letters more often."""
    rng = np.random.default_rng(0)
    letters = np.minimum(rng.exponential(6, (documents, 30)), 25).astype(int)
    return corpus(folder, *[" ".join(f"w{chr(97 + i)}" for i in line) for line in letters])


def read(documents, visual=("wa",), size=100, fraction=1.0):
    return read_vocabulary(Engine.for_tests(), documents, visual, size, fraction)


def trained(documents, vocabulary, frozen=None, settings=SETTINGS, engine=None):
    engine = engine or Engine.for_tests()
    return word_vectors(engine, documents, vocabulary, settings, 0, frozen)


def test_frozen_words_do_not_move_by_a_bit_and_the_others_do(tmp_path):
    documents, names = babble(tmp_path), ["wc", "wa", "new"]
    found = read(documents, names)
    counted = found._replace(counts=[max(n, 1) for n in found.counts])
    places = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    vectors = trained(documents, counted, FrozenVectors(names, places))
    rows = [found.words.index(word) for word in names]
    assert torch.equal(vectors[rows], places)
    start = make_untrained(counted, SETTINGS, 0).wv[found.words]
    moved = (vectors.numpy() != start).any(1)
    assert moved.sum() == len(found.words)


def test_with_no_word_frozen_the_vectors_are_gensims(tmp_path):
    documents = babble(tmp_path)
    found = read(documents)
    lines = [line.split() for line in documents[0]]
    model = Word2Vec(vector_size=8, sg=1, negative=5, min_count=1, workers=1, seed=0)
    model.build_vocab_from_freq(dict(zip(found.words, found.counts, strict=True)))
    model.train(lines, total_examples=len(lines), epochs=3)
    vectors = trained(documents, found)
    assert np.array_equal(vectors.numpy(), model.wv[found.words])


def test_the_vocabulary_is_the_most_frequent_words_then_the_visual_ones(tmp_path):
    documents = corpus(tmp_path, "The cat, the dog!", "A dog: the hat 2 x", "", "Boat")
    found = read(documents, visual=["dog", "boat", "car"], size=2)
    assert (found.words, found.counts) == (["the", "dog", "boat", "car"], [3, 2, 1, 0])
    assert (found.documents, found.pieces, found.tokens) == (3, 3, 8)


def test_a_fraction_takes_the_first_documents(tmp_path):
    documents = corpus(tmp_path, *(f"dog number{c}" for c in "abcdefghij"))
    found = read(documents, visual=["dog"], fraction=0.8)
    assert (found.documents, found.counts[0]) == (8, 8)
    assert "numberh" in found.words
    assert "numberi" not in found.words


def test_a_long_document_comes_in_pieces_and_none_is_lost(tmp_path):
    documents = corpus(tmp_path, "dog " * 25_000, "dog cat")
    pieces = list(CorpusPieces(documents[0], 2, Engine.for_tests(), "reading"))
    assert [len(piece) for piece in pieces] == [10_000, 10_000, 5_000, 2]
    assert read(documents, visual=["dog"]).pieces == 4


@pytest.mark.parametrize("lines", [[""], ["1 2 3", "?"]])
def test_a_corpus_without_words_is_refused(tmp_path, lines):
    with pytest.raises(DataError, match=r"the corpus has no words in \d documents"):
        read(corpus(tmp_path, *lines))


def test_a_corpus_without_any_visual_word_is_refused(tmp_path):
    documents = corpus(tmp_path, "nothing to be seen here")
    with pytest.raises(DataError, match=r"none of the 2 visual words \(cat, dog, ...\) is in the"):
        read(documents, visual=["cat", "dog"])


def test_broken_utf_8_is_named_before_anything_is_trained(tmp_path):
    (tmp_path / "wiki.txt").write_bytes(b"dog\n\xff\n")
    with pytest.raises(DataError, match=r"wiki.txt, line 2, is not UTF-8"):
        read(column(tmp_path / "wiki.txt"), visual=["dog"])


def test_a_frozen_vector_that_moved_is_named():
    before, after = np.zeros((2, 3), np.float32), np.float32([[0, 0, 0], [0, 1e-30, 0]])
    with pytest.raises(RuntimeError, match="the vector of 'dog' changed, but it must be frozen"):
        require_unmoved(before, after, ["cat", "dog"])


class RecordsProgress:
    """Keeps what is shown."""

    def __init__(self):
        self.shown = []

    def start(self, what, total):
        self.shown.append([what, total, 0])

    def advance(self, rows):
        self.shown[-1][2] += rows


def test_epochs_are_shown_and_stored_vectors_are_not_trained_again_but_other_settings_are(
    tmp_path,
):
    documents, progress = babble(tmp_path, documents=5), RecordsProgress()
    store = Store(tmp_path / "store")
    engine = Engine(ComputeSettings(torch.device("cpu")), store=store, progress=progress)
    found, frozen = read(documents), FrozenVectors(["wa"], torch.ones(1, 8))
    first, again = (trained(documents, found, engine=engine) for _ in range(2))
    assert torch.equal(first, again)
    assert progress.shown == [["skip-gram", 5, 5]] * 3
    trained(documents, found, frozen, engine=engine)
    trained(documents, found, settings=SETTINGS._replace(window=2), engine=engine)
    assert len(progress.shown) == 9


def test_on_the_embedded_corpus_trained_vectors_beat_random_ones_on_word_pairs():
    documents = column(Path(datapath("head500.noblanks.cor")))
    found = read(documents, visual=["dog"], size=2000)
    settings = SkipGram(vector_size=16, epochs=2, learning_rate=0.05)
    vectors = trained(documents, found, settings=settings)
    rng = torch.Generator().manual_seed(0)
    draws = [torch.randn(len(found.words), 16, generator=rng) for _ in range(20)]
    for pairs in map(Path, map(datapath, ["wordsim353.tsv", "simlex999.txt"])):
        keyed = [keyed_vectors(found.words, one) for one in (vectors, *draws)]
        value, *random = (similarity(one, pairs).pearson.value for one in keyed)
        assert value > max(random)
