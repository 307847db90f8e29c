"""The words of `vlbench leaderboard`: one module each, with a function `answer`."""
