import random
import re
import string
from itertools import product

import pytest
from runs import board, evaluate
from sources import make_source

from vlbench.boards.privacy import cleaned, cut, secrets_in, shown
from vlbench.cli import main

TOKEN = "hf_AbCdEfGh1234567890"  # noqa: S105 - nobody's

BINARY = {".parquet", ".pdf", ".png"}


@pytest.fixture(autouse=True)
def alice(monkeypatch):
    monkeypatch.setenv("LOGNAME", "alice")


CLEANED = [
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
    ("token: hunter2secret", "token: <hidden>"),
    ("log(pw=hunter2, size=3)", "log(pw=<hidden>, size=3)"),
    ("accessToken='a b', n=1", "accessToken='<hidden>', n=1"),
    ("{'password': 1234}", "{'password': <hidden>}"),
    ("https://bob:p@ss@host/a", "https://host/a"),
    ("no openai:org/tiny:7b@http://10.0.0.7:8000/v1, sorry", "no openai:org/tiny:7b, sorry"),
    ("s3://bucket-user", "s3://<hidden>"),
    ("no s3://bucket/deep/x.pt, sorry", "no s3://<hidden>/x.pt, sorry"),
    (r"\\server\user", "<hidden>"),
    (r"in \\server\user\deep\x.pt, line 3", "in x.pt, line 3"),
    (r"'\\\\server\\user\\x.pt'", "'x.pt'"),
    (r"\\?\UNC\server\user\x.pt", "x.pt"),
    ("//server/user/x.pt", "x.pt"),
    (r"C:\Users\bob or 'C:\\Users\\bob\\x.pt'", "~ or 'x.pt'"),
    ("lone \ud800 surrogate", "lone \ufffd surrogate"),
]


@pytest.mark.parametrize(("text", "kept"), CLEANED)
def test_secrets_and_folders_are_cut_from_a_message(text, kept):
    assert cleaned(text) == kept


KEPT = [
    "about ~5 % of 1/2, and a/b/c",
    "RuntimeError: broke (colours.py:31)",
    "a regex \\\\d+ // and a comment",
    "hf://datasets/cifar10",
    "https://huggingface.co/openai/clip-vit-base-patch32",
    "hf_text, hf_transformers and sk-learn-like",
    "CLIP-ViT-bigG-14-laion2B-39B-b160k",
    "BlipForImageTextRetrieval has no tokens; monkey=5",
    "monkey: 5; tokens: 77",
    "sha256:" + "0a1b2c3d" * 8,
    "the adapter has no `crop`: its own preprocessing is used",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_neither_stays(text):
    assert cleaned(text) == text


ARGUMENTS = [
    ("token", "x", "<hidden>"),
    ("hf_token", "x", "<hidden>"),
    ("apiKey", 12345, "<hidden>"),
    ("login", {"user": "u", "password": "p"}, {"user": "u", "password": "<hidden>"}),
    ("secret", ["a", "b"], ["<hidden>", "<hidden>"]),
    ("weights", TOKEN, "<hidden>"),
    ("weights", "file:///home/alice/x.pt", "x.pt"),
    ("weights", "~/x.pt", "x.pt"),
    ("db_pw", "x", "<hidden>"),
    ("address", "http://10.0.0.7/v1", "<hidden>"),
    ("weights", "s3://bucket-user/x.pt", "s3://<hidden>/x.pt"),
    ("token", None, None),
    ("tokenizer", "bert", "bert"),
    ("use_token", True, True),
    ("size", 3.5, 3.5),
]


@pytest.mark.parametrize(("name", "value", "kept"), ARGUMENTS)
def test_an_argument_is_shown_without_secrets(name, value, kept):
    assert shown(value, name) == kept


def test_secrets_among_arguments_are_found_by_their_names():
    given = {"hf_token": "a", "login": {"password": ["b"], "user": "c"}, "key": 5, "pw": 1234}
    assert list(secrets_in(given)) == ["a", "b", "1234"]
    assert cleaned("a login with b", ["b"]) == "a login with <hidden>"


def test_a_longer_secret_is_hidden_before_one_that_it_begins_with():
    assert cleaned("it was abcdef", ["abc", "abcdef"]) == "it was <hidden>"


def test_values_of_variables_that_are_secret_or_named_are_hidden(monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "swordfish")
    monkeypatch.setenv("MY_HOST", "cluster-7")
    assert cleaned("swordfish on cluster-7") == "<hidden> on cluster-7"
    assert cleaned("swordfish on $MY_HOST (cluster-7)") == "<hidden> on $MY_HOST (<hidden>)"


# What a message may say of something private, `{}`.
FORMS = [
    *("token: {}", "Token:{}", "hf_token = {}", "accessToken: '{}'", "pw={}", "db-pw: {}"),
    *('password => "{}"', "{'api_key': '{}'}", r"{\"secret\": \"{}\"}", "f(token=b'{}')"),
    *("credentials={}&n=1", "Authorization: Basic {}=", "Bearer {}", "https://bob:{}@host/x"),
    *("$MY_HOST is {}", "s3://{}", "s3://{}/deep/x.pt", "'gs://{}/'", "abfss://{}@host/deep/x.pt"),
    *("s3://bucket/{}/x.pt", r"\\server\{}", r"\\{}\share\x.pt", r"'\\\\server\\{}\\x.pt'"),
    *("//server/{}/x.pt", r"\\?\UNC\server\{}\x.pt", r"\\server\share\{}\x.pt"),
    *(r"C:\Users\{}", r"'C:\\Users\\{}\\x.pt'", "C:/data/{}/x.pt", "/home/{}", "~/{}/x.pt"),
]


AROUND = ["{}", "RuntimeError: no entry, {}", "({})", "a {}\nb", "[{}, 5]", "at {}: gone"]


def test_nothing_private_is_left_in_a_message(monkeypatch):
    rng = random.Random(0)  # noqa: S311 - draws what is to be hidden
    for form, around, _ in product(FORMS, AROUND, range(5)):
        private = "".join(rng.choices(string.ascii_letters + string.digits + "-._+", k=12))
        monkeypatch.setenv("MY_HOST", private)
        text = around.replace("{}", form.replace("{}", private))
        assert private not in cleaned(text), text


def test_nothing_private_enters_a_board_or_page_by_any_text(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_HOST", "swordfish")
    source = make_source(tmp_path / "ours")
    adapters, task = source / "model_adapters", source / "tasks" / "few_shot_colours.yaml"
    text = (adapters / "colours.py").read_text()
    text = text.replace("shift: float = 0.0)", "shift: float = 0.0, token='', place='')")
    why = r"no hunter2, token: swordfish, pw=swordfish, s3://swordfish, \\\\a\\swordfish, MY_HOST"
    text = text.replace('RuntimeError("the model broke', f'RuntimeError("{why} is swordfish')
    (adapters / "colours.py").write_text(text)
    lines = (adapters / "models.yaml").read_text()
    (adapters / "models.yaml").write_text(lines.replace("none", r"s3://swordfish/x.pt"))
    task.write_text("# Data: \\\\host\\swordfish\n" + task.read_text())
    boards, given = tmp_path / "boards", {"token": "hunter2", "place": r"\\host\swordfish"}
    for model in ("mean-colour", "fails"):
        evaluate(source, model=model, model_args=given, output=boards)
    main(
        ["leaderboard", "page", str(boards), "--output", str(boards), "--include-path", str(source)]
    )
    written = "".join(file.read_text() for file in boards.rglob("*.*") if file.suffix not in BINARY)
    assert not {"hunter2", "swordfish"} & set(re.findall(r"\w+", written))
    rows = board(boards)["rows"]
    assert rows[0]["reason"].startswith("RuntimeError: no <hidden>, token: <hidden>, pw=<hidden>,")
    assert rows[1]["provenance"]["params"]["token"] == "<hidden>"  # noqa: S105 - hides one
    assert rows[1]["model"] == "mean-colour[place=<hidden>,token=<hidden>]"


def test_the_folder_that_the_shell_is_in_is_cut_like_any_other(monkeypatch):
    monkeypatch.setenv("PWD", "/mnt/project")
    assert cleaned("/mnt/project/images/cat.png is broken") == "cat.png is broken"


def test_a_long_text_is_cut_before_it_enters_a_row():
    answer = "x" * 3_000_000
    assert cleaned(f"the server answered {answer}") == "the server answered ..."
    assert cleaned(answer) == " ..."
    assert cut("a word " * 1000) == f"{'a word ' * 285}a ..."
    assert len(shown(answer[:3000])) == 2000


def test_half_a_secret_at_the_limit_is_not_kept():
    text = "a word " * 2857
    assert cleaned(f"{text}{TOKEN}") == f"{text.rstrip()} ..."


def test_reasons_and_notes_of_rows_are_cut(tmp_path):
    source = make_source(tmp_path / "source")
    adapter = source / "model_adapters" / "colours.py"
    text = adapter.read_text().replace('"the model broke"', '"broke " * 900_000')
    adapter.write_text(text)
    evaluate(source, model="fails", output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert row["status"] == "failed"
    assert len(row["reason"]) == 2000
    assert row["reason"].endswith("...")
