"""`vlbench leaderboard`: look at boards."""
