"""What is made only from boards: tables, summaries and figures."""
