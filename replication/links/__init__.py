"""Links: their definitions, requests and answers, and the runner of each mode."""
