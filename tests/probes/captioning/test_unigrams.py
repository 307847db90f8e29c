from tagged_words import tagged

from vlbench.probes.captioning.unigrams import unigram_table


def test_the_most_frequent_words_come_first_with_their_parts_of_speech():
    table = unigram_table(
        {"ce": [tagged("a dog near a cat ."), tagged("a dog")], "favourites": [tagged("dog dog")]}
    ).to_pylist()
    assert [(row["captions"], row["rank"], row["word"], row["count"]) for row in table] == [
        ("ce", 1, "a", 3),
        ("ce", 2, "dog", 2),
        ("ce", 3, "cat", 1),
        ("ce", 4, "near", 1),
        ("favourites", 1, "dog", 2),
    ]
    assert [row["part_of_speech"] for row in table] == ["DET", "NOUN", "NOUN", "ADP", "NOUN"]
    assert [row["share"] for row in table] == [3 / 7, 2 / 7, 1 / 7, 1 / 7, 1.0]


def test_a_word_has_the_tag_that_it_has_most_often():
    captions = [[("park", "NOUN")], [("park", "VERB")], [("park", "VERB")]]
    assert unigram_table({"ce": captions})["part_of_speech"].to_pylist() == ["VERB"]


def test_ten_words_are_listed_and_no_caption_has_none():
    long = tagged(" ".join(f"word{i:02}" for i in range(30)))
    assert unigram_table({"ce": [long]}).num_rows == 10
    assert unigram_table({"ce": [[]]}).num_rows == 0
