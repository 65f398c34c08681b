"""Text: cleaning steps, tokenizers, packings, and the examples made with them."""
