from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import squareform

from vlbench.errors import TooFewRows
from vlbench.metrics import representation_similarity as module
from vlbench.metrics.representation_similarity import (
    block_jackknife,
    calibrated,
    centred_kernel,
    cka_debiased,
    cka_left_out,
    draw_blocks,
    mutual_knn,
    mutual_knn_left_out,
)


def gaussian(n, d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def related(n, widths, seed=0):
    """Return representations of n examples that share a part of what they say."""
    shared, *own = (gaussian(n, d, seed + i) for i, d in enumerate((4, *widths)))
    maps = (gaussian(4, d, seed + 10 + i) for i, d in enumerate(widths))
    return [shared @ m + one for m, one in zip(maps, own, strict=True)]


def textbook_cka(x, y):
    """Return the debiased CKA by kernels whose rows sum to 0 off the diagonal."""
    centred = []
    for one in (x, y):
        kernel = (one @ one.T).numpy()
        n = len(kernel)
        np.fill_diagonal(kernel, 0)
        rows, total = kernel.sum(1) / (n - 2), kernel.sum() / (n - 1) / (n - 2)
        kernel = kernel - rows[:, None] - rows[None] + total
        np.fill_diagonal(kernel, 0)
        centred.append(kernel)
    a, b = centred
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def brute_force_knn(x, y, k):
    sets = []
    for one in (x.numpy(), y.numpy()):
        unit = one / np.linalg.norm(one, axis=1, keepdims=True)
        order = [np.argsort(-(unit @ u), kind="stable") for u in unit]
        sets.append([{*[j for j in row.tolist() if j != i][:k]} for i, row in enumerate(order)])
    return np.mean([len(a & b) / k for a, b in zip(*sets, strict=True)])


@pytest.mark.parametrize("widths", [(5, 7), (5, 90), (80, 90)])
def test_cka_is_the_textbooks_for_any_widths(widths):
    x, y = related(40, widths)
    assert cka_debiased(x + 3, y - 2) == pytest.approx(textbook_cka(x, y), abs=1e-10)


def test_cka_is_invariant_to_a_rotation_scale_and_shift_of_either():
    x, y = related(50, (6, 8))
    rotation = torch.linalg.qr(gaussian(8, 8, 1)).Q
    changed = cka_debiased(1e30 * x, 1e-30 * (y @ rotation) + 1e-30)
    assert changed == pytest.approx(cka_debiased(x, y), abs=1e-10)
    assert cka_debiased(y, 1e-20 * y @ rotation + 5e-20) == pytest.approx(1, abs=1e-10)
    assert cka_debiased(x @ torch.diag(torch.arange(1.0, 7).double()), y) != pytest.approx(changed)


def test_cka_of_independent_gaussians_is_0_within_its_interval_though_dimensions_are_many():
    x, y = gaussian(300, 512), gaussian(300, 512, 1)
    blocks = draw_blocks(300, 20, np.random.default_rng(0))
    found = block_jackknife(cka_left_out(x, y, blocks).tolist(), 300, -1, 1)
    assert found.ci95[0] < 0 < found.ci95[1] < 0.1
    # The biased one says that they are alike.
    a, b = ((one - one.mean(0)) @ (one - one.mean(0)).T for one in (x, y))
    assert (a * b).sum() / a.norm() / b.norm() > 0.5


@pytest.mark.parametrize(
    "x", [torch.full((20, 3), 0.3), torch.zeros(20, 3), torch.eye(20)], ids=["one", "0", "apart"]
)
def test_a_representation_that_tells_no_examples_apart_has_no_cka(x):
    assert cka_debiased(x, gaussian(20, 4)) == 0
    assert cka_debiased(gaussian(20, 4), x) == 0


@pytest.mark.parametrize("widths", [(5, 7), (5, 90), (80, 90)])
def test_cka_without_a_block_is_that_of_the_other_rows(widths):
    x, y = related(40, widths)
    blocks = draw_blocks(40, 7, np.random.default_rng(0))
    kept = [sorted({*range(40)} - {*block.tolist()}) for block in blocks]
    expected = [cka_debiased(x, y), *(cka_debiased(x[rows], y[rows]) for rows in kept)]
    assert cka_left_out(x, y, blocks).tolist() == pytest.approx(expected, abs=1e-10)


def test_mutual_neighbours_by_hand():
    # The angles of four points in x, and in y.
    angles = torch.tensor([[0.0, 10, 30, 60], [0, 30, 10, 60]]).deg2rad()
    x, y = (torch.stack([one.cos(), one.sin()], 1) for one in angles)
    # Nearest in x: 1, 0, 1, 2; in y: 2, 2, 0, 1.
    assert mutual_knn(x, y, 1) == 0
    # Two nearest in x: 12, 02, 1 and half of 0 and 3, 12; in y: 12, 2 and half of 0 and 3, 01, 12.
    assert mutual_knn(x, y, 2) == pytest.approx((1 + 0.75 + 0.75 + 1) / 4)
    angles = torch.tensor([0.0, 10, 90, 65]).deg2rad()
    # Nearest in these: 1, 0, 3, 2.
    assert mutual_knn(x, torch.stack([angles.cos(), angles.sin()], 1), 1) == 0.75


@pytest.mark.parametrize("k", [1, 5, 30])
def test_mutual_neighbours_are_those_of_brute_force(k):
    x, y = related(40, (5, 9))
    assert mutual_knn(x, y, k) == pytest.approx(brute_force_knn(x, y, k))


def test_mutual_neighbours_in_blocks_are_the_same(monkeypatch):
    x, y = related(40, (5, 9))
    blocks = draw_blocks(40, 7, np.random.default_rng(0))
    whole = mutual_knn_left_out(x, y, 4, blocks).tolist()
    monkeypatch.setattr(module, "BLOCK", 100)
    assert mutual_knn_left_out(x, y, 4, blocks).tolist() == pytest.approx(whole)


def test_mutual_neighbours_without_a_block_are_those_of_the_other_rows():
    x, y = related(40, (5, 9))
    x = x.repeat_interleave(2, 0)[:40]
    blocks = [torch.arange(20), torch.arange(20, 30), torch.arange(30, 40)]
    kept = [sorted({*range(40)} - {*block.tolist()}) for block in blocks]
    expected = [mutual_knn(x, y, 4), *(mutual_knn(x[rows], y[rows], 4) for rows in kept)]
    assert mutual_knn_left_out(x, y, 4, blocks).tolist() == pytest.approx(expected)


def slow_mutual_knn(x, y, k):
    """Return the mutual neighbours by the rule for ties, all in float64."""
    both = 1.0
    for one in (x, y):
        unit = torch.nn.functional.normalize(one.double(), eps=1e-300)
        similarity = (unit @ unit.T).fill_diagonal_(-9)
        last = similarity.topk(k).values[:, -1:]
        nearer, level = similarity > last + 1e-6, (similarity - last).abs() <= 1e-6
        left = (k - nearer.sum(1, keepdim=True)).double() / level.sum(1, keepdim=True)
        both = both * torch.where(nearer, 1.0, torch.where(level, left, 0.0))
    return float(both.sum() / k / len(x))


def at_cosines(cosines, width):
    """Return a unit vector, then others at some cosines to it, float64."""
    first, others = torch.eye(width).double()[:1], gaussian(len(cosines), width)
    others[:, 0] = 0
    cosines = torch.tensor(cosines).double()[:, None]
    others = (1 - cosines**2).sqrt() * torch.nn.functional.normalize(others)
    return torch.cat([first, cosines * first + others]) @ torch.linalg.qr(gaussian(width, width)).Q


NEAR_TIES = {
    f"{step} apart": at_cosines([0.5 + i * step for i in range(-20, 19)], 512)
    for step in (0.5e-6, 0.9e-6, 0.98e-6, 1.1e-6, 2e-6)
}
TIES = {
    "few of many dimensions": gaussian(40, 768),
    "copies": gaussian(8, 50).repeat(5, 1),
    "pairs": gaussian(20, 50).repeat(2, 1) + 1e-9 * gaussian(40, 50, 1),
    "one-hot": torch.eye(5).repeat(8, 1),
    "constant": torch.full((40, 7), 0.3),
    "some are 0": torch.cat([torch.zeros(15, 6), gaussian(25, 6).float()]),
    "few values": torch.from_numpy(np.random.default_rng(0).integers(0, 2, (40, 3))).float(),
    "nearly one direction": 1 + 1e-4 * gaussian(40, 300),
}


@pytest.mark.parametrize("k", [1, 4, 15])
@pytest.mark.parametrize("x", [*NEAR_TIES.values(), *TIES.values()], ids=[*NEAR_TIES, *TIES])
def test_neighbours_are_those_of_float64_whatever_is_tied(x, k):
    y = torch.cat([x[:1].double(), gaussian(14, x.shape[1]), x[15:].double()])
    blocks = draw_blocks(40, 7, np.random.default_rng(0))
    kept = [[*range(40)], *(sorted({*range(40)} - {*block.tolist()}) for block in blocks)]
    expected = [slow_mutual_knn(x[rows], y[rows], k) for rows in kept]
    assert mutual_knn_left_out(x, y, k, blocks).tolist() == pytest.approx(expected, abs=1e-12)


def test_float32_does_not_decide_if_it_may_be_cut_to_fewer_bits(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    whole = module._many_neighbours
    monkeypatch.setattr(module, "_many_neighbours", lambda *a: chosen.append(a[1]) or whole(*a))
    x, y = related(40, (5, 9))
    assert mutual_knn(x, y, 4) == pytest.approx(slow_mutual_knn(x, y, 4), abs=1e-12)
    assert sorted(torch.cat(chosen).tolist()) == sorted([*range(40)] * 2)


@pytest.mark.parametrize("x", [torch.full((20, 3), 0.3), torch.zeros(20, 3)])
def test_neighbours_that_are_all_tied_are_mutual_by_chance(x):
    assert mutual_knn(x, gaussian(20, 4), 3) == pytest.approx(3 / 19)
    assert mutual_knn(x, x, 3) == pytest.approx(3 / 19)


def test_over_all_permutations_the_means_are_exact():
    x, y = related(6, (2, 3))
    orders = [torch.tensor(order) for order in permutations(range(6))]
    assert np.mean([cka_debiased(x, y[o]) for o in orders]) == pytest.approx(0, abs=1e-12)
    assert np.mean([mutual_knn(x, y[o], 2) for o in orders]) == pytest.approx(2 / 5)


def test_calibrated_is_0_at_the_null_and_1_at_1():
    assert [calibrated(v, 0.2) for v in (0.2, 0.6, 1.0)] == pytest.approx([0, 0.5, 1])
    assert calibrated(1, 1) == 0


def test_the_interval_is_students_of_the_deleted_blocks():
    # Pseudo-values 4 v - 3 v_i of a mean of 1, 2, 3, 6 are these numbers: sd 2.16, by 2 is 1.08.
    data = np.array([1.0, 2, 3, 6])
    found = block_jackknife([3.0, *((12 - data) / 3)], 4, 0, 10)
    assert found.stderr == pytest.approx(data.std(ddof=1) / 2)
    assert found.ci95 == pytest.approx((3 - 3.182446 * found.stderr, 3 + 3.182446 * found.stderr))
    # That of equal values has a width.
    equal = block_jackknife([1.0] * 21, 100, -1, 1)
    assert equal.ci95 == pytest.approx((1 - 2 * (1 - 0.05**0.01), 1))


def test_blocks_have_each_row_once():
    blocks = draw_blocks(41, 20, np.random.default_rng(0))
    assert sorted(torch.cat(blocks).tolist()) == list(range(41))
    assert {len(block) for block in blocks} == {2, 3}


def test_the_interval_covers_a_planted_cka():
    # The true value is that of very many examples; 60 draws, of which at least 50 must cover it.
    true = cka_debiased(*planted(20_000, 999))
    covered = [interval_of(planted(200, seed)) for seed in range(60)]
    assert sum(low <= true <= high for low, high in covered) >= 50


def planted(n, seed):
    """Return n examples of two noisy views of the same 4 numbers; CKA is about .3."""
    rng = np.random.default_rng([seed, n])
    shared = rng.normal(size=(n, 4))
    return [torch.from_numpy(shared + 0.9 * rng.normal(size=(n, 4))) for _ in "12"]


def interval_of(pair, blocks=20):
    n = len(pair[0])
    values = cka_left_out(*pair, draw_blocks(n, blocks, np.random.default_rng(0)))
    return block_jackknife(values.tolist(), n, -1, 1).ci95


def test_too_few_examples_and_blocks_are_refused():
    x = gaussian(5, 3)
    with pytest.raises(TooFewRows, match="3 examples to compare, 4 needed"):
        cka_debiased(x[:3], x[:3])
    with pytest.raises(TooFewRows, match="5 examples to compare, 6 needed"):
        mutual_knn(x, x, 4)
    with pytest.raises(TooFewRows, match="5 examples for 3 blocks"):
        draw_blocks(5, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="1 blocks; an interval needs 2 or more"):
        draw_blocks(5, 1, np.random.default_rng(0))


def test_what_is_no_pair_of_representations_is_refused():
    with pytest.raises(ValueError, match="5 and 6 rows; both must be of the same examples"):
        cka_debiased(gaussian(5, 3), gaussian(6, 3))
    with pytest.raises(ValueError, match="k 0: must be 1 or more"):
        mutual_knn(gaussian(5, 3), gaussian(5, 3), 0)


@pytest.mark.parametrize("width", [3, 200])
def test_debiased_cka_is_the_correlation_of_centred_kernels(width):
    rng = torch.Generator().manual_seed(width)
    x = torch.randn(40, width, generator=rng) + 3
    y = torch.cat([x[:, :2], torch.randn(40, 5, generator=rng)], 1)
    kernels = [centred_kernel(one) for one in (x, y)]
    found = float(np.corrcoef(*(one.numpy() for one in kernels))[0, 1])
    assert found == pytest.approx(cka_debiased(x, y), abs=1e-9)
    square = squareform(kernels[0].numpy())
    assert np.allclose(square.sum(0), 0, atol=1e-12)


@pytest.mark.parametrize("x", [torch.ones(9, 4), torch.eye(9)], ids=["constant", "orthogonal"])
def test_a_representation_that_tells_nothing_apart_has_a_kernel_of_zeros(x):
    assert not centred_kernel(x).any()
