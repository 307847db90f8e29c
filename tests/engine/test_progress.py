from vlbench.engine.progress import NoProgress, Progress


def test_every_step_of_a_run_may_be_ignored():
    ignored: Progress = NoProgress()
    ignored.begin("a model", "a task")
    ignored.start("features", 10)
    ignored.advance(3)
    ignored.done(None)
    assert vars(ignored) == {}
