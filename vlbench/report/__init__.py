"""What is made from boards alone: tables, summaries and figures."""
