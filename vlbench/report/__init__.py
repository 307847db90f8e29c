"""Tables, summaries and figures made from boards."""
