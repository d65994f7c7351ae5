"""Rules of the endpoint, message and schema specifications that a model cannot express."""
