"""Human judgement of generated questions: sheets for raters, and statistics of filled sheets."""
