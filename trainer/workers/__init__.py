"""Several processes that train one model: who they are, what they agree on, and who is lost."""
