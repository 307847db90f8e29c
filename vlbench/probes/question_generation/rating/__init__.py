"""Human ratings of generated questions: sheets for raters, and statistics of filled sheets."""
