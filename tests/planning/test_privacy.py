import pytest
from runs import board, evaluate
from sources import make_source

from vlbench.planning.privacy import cleaned, secrets_in, shown

TOKEN = "hf_AbCdEfGh1234567890"  # noqa: S105 - nobody's


@pytest.fixture(autouse=True)
def alice(monkeypatch):
    monkeypatch.setenv("LOGNAME", "alice")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("no file /home/alice/secret/weights.bin", "no file weights.bin"),
        ("no file '/home/alice/secret/weights.bin'", "no file 'weights.bin'"),
        ("in path:/data/deep/weights.bin: gone", "in path:weights.bin: gone"),
        ("see /home/bob.", "see ~"),
        ("see /home/bob, /Users/bob and /root", "see ~, ~ and ~"),
        ("~/work/weights.bin or ~bob/weights.bin", "weights.bin or weights.bin"),
        (r"C:\Users\bob\weights.bin", "weights.bin"),
        ("file:///home/alice/weights.bin", "weights.bin"),
        ("alice may not read it", "<user> may not read it"),
        (f"401 for {TOKEN}", "401 for <hidden>"),
        ("sk-proj-1234567890abcdef", "<hidden>"),
        ("ghp_abcdefgh12345678 and AKIAIOSFODNN7EXAMPLE", "<hidden> and <hidden>"),
        ("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7", "<hidden>"),
        ("Authorization: Bearer abcdef.ghijkl", "Authorization: Bearer <hidden>"),
        ("https://bob:pass@host/a/b?api_key=x&n=1", "https://host/a/b?api_key=<hidden>&n=1"),
        (
            "{'hf_token': 'x', \"password\": \"y\"}",
            "{'hf_token': '<hidden>', \"password\": \"<hidden>\"}",
        ),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
    ],
)
def test_secrets_and_folders_are_cut_from_a_message(text, kept):
    assert cleaned(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "about ~5 % of 1/2, and a/b/c",
        "RuntimeError: broke (colours.py:31)",
        "https://huggingface.co/openai/clip-vit-base-patch32",
        "hf_text, hf_transformers and sk-learn-like",
        "CLIP-ViT-bigG-14-laion2B-39B-b160k",
        "BlipForImageTextRetrieval has no tokens; monkey=5",
        "sha256:" + "0a1b2c3d" * 8,
        "the adapter has no `crop`: its own preprocessing holds",
    ],
)
def test_what_is_neither_stays(text):
    assert cleaned(text) == text


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("token", "x", "<hidden>"),
        ("hf_token", "x", "<hidden>"),
        ("apiKey", 12345, "<hidden>"),
        ("login", {"user": "u", "password": "p"}, {"user": "u", "password": "<hidden>"}),
        ("secret", ["a", "b"], ["<hidden>", "<hidden>"]),
        ("weights", TOKEN, "<hidden>"),
        ("weights", "file:///home/alice/x.pt", "x.pt"),
        ("weights", "~/x.pt", "x.pt"),
        ("token", None, None),
        ("tokenizer", "bert", "bert"),
        ("use_token", True, True),
        ("size", 3.5, 3.5),
    ],
)
def test_an_argument_is_shown_without_secrets(name, value, kept):
    assert shown(value, name) == kept


def test_secrets_among_arguments_are_found_by_their_names():
    given = {"hf_token": "a", "login": {"password": "b", "user": "c"}, "key": 5}
    assert list(secrets_in(given)) == ["a", "b"]
    assert cleaned("a login with b", ["b"]) == "a login with <hidden>"


def test_no_secret_enters_a_board_by_a_name_a_parameter_or_a_reason(tmp_path):
    source = make_source(tmp_path / "ours")
    adapters = source / "model_adapters" / "colours.py"
    text = adapters.read_text().replace("shift: float = 0.0)", "shift: float = 0.0, token='')")
    text = text.replace('RuntimeError("the model broke")', 'RuntimeError("no entry with hunter2")')
    adapters.write_text(text)
    for model in ("mean-colour", "fails"):
        evaluate(source, model=model, model_args={"token": "hunter2"}, output=tmp_path / "boards")
    rows = board(tmp_path / "boards")["rows"]
    assert "hunter2" not in repr(rows)
    assert [row["model"] for row in rows] == [
        "fails[token=<hidden>]",
        "mean-colour[token=<hidden>]",
    ]
    assert rows[0]["reason"].startswith("RuntimeError: no entry with <hidden> (colours.py:")
    assert rows[1]["provenance"]["params"]["token"] == "<hidden>"  # noqa: S105 - hides one
