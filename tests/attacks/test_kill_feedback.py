"""Every answered post of feedback is there once, though workers are killed; the script runs longer."""

from tests.attacks import kill_feedback


def test_killed_workers_lose_no_feedback(capsys):
    assert kill_feedback.main(["--posts", "300", "--clients", "8", "--kills", "3"]) == 0, capsys.readouterr().out
