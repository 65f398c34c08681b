"""Text: cleaning steps, tokenizers and packing."""
