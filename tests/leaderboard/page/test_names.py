from planted_boards import score

from vlbench.leaderboard.page import names


def test_an_id_of_a_row_names_task_and_model():
    assert names.row_id("few_shot", "tiny-clip") == "row-few_shot.tiny-clip"
    assert names.row_id("t", "m", "sha256:0123456789") == "row-t.m.01234567"


def test_names_that_a_page_cannot_hold_get_ids_of_their_own():
    hostile, other = names.model_id("<script>"), names.model_id("(script)")
    assert hostile != other
    assert not set(hostile + other) & set("<>()\"' ")


def test_fractions_are_percentages_and_correlations_have_three_decimals():
    assert [names.figure_of(0.5314), names.figure_of(-0.0092, "correlation")] == ["53.1", "-0.009"]
    assert names.figure_of(1234.56, "words") == "1235"


def test_a_label_has_the_conditions_and_the_unit():
    assert names.metric_label("accuracy", {"shots": 5}) == "accuracy (shots 5), %"
    assert names.metric_label("r", {}, "correlation") == "r"


def test_an_interval_and_chance_are_empty_where_there_is_none():
    assert names.interval_of(score(ci95=(0.1, 0.25))) == "10.0 to 25.0"
    assert (names.interval_of(score()), names.chance_of(score())) == ("", "")


def test_a_link_leads_to_arxiv_alone():
    assert names.arxiv_link("arXiv:2104.08313, section 3") == "https://arxiv.org/abs/2104.08313"
    assert names.arxiv_link("javascript:alert(1)") == ""
