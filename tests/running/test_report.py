from vlbench.running.report import Report


def test_two_reports_share_nothing():
    one, two = Report(), Report()
    one.absent["a task"] = "no data"
    assert two == Report()
