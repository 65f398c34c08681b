"""Byte-level BPE in TensorFlow operations: the ids that the Hugging Face library gives.

tensorflow-text has tokenizers too, but a server must then load its operations. These are in every
TensorFlow. A text is cut into words with RE2; each distinct word is merged once, the pair of least
rank first and of equal ones the leftmost, as the library's queue takes them.
"""

from __future__ import annotations

import json
from typing import Any

import tensorflow as tf

# \\s of the library's regular expressions: White_Space of Unicode. That of RE2 is ASCII alone.
_SPACE = r"\t-\r\x{85}\p{Z}"
# Of GPT-2. Its last space before a word belongs to the word: the expression looks ahead, which RE2
# cannot, so runs of white space are cut before their last character first.
_RUN = rf"([{_SPACE}]+)([{_SPACE}][^{_SPACE}])"
_WORD = (
    r"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
    rf"| ?[^{_SPACE}\p{{L}}\p{{N}}]+|[{_SPACE}]+)"
)
_CUT = b"\xff"  # no byte of UTF-8, and nothing that an expression matches
_NONE = -1  # behind the last token of a word


class ByteLevelBpe(tf.Module):
    """A tokenizer in a graph.

    Args:
        byte_ids: Ids of the 256 bytes.
        merges: (id, id, id of both) by rank.
        size: Every id is smaller.
    """

    def __init__(self, byte_ids: list[int], merges: list[tuple[int, int, int]], size: int) -> None:
        super().__init__(name="byte_level_bpe")
        self._byte_ids = tf.constant(byte_ids, tf.int64)
        self._size = size
        keys = [left * size + right for left, right, _ in merges]
        values = [rank << 32 | merged for rank, (_, _, merged) in enumerate(merges)]
        self._no_rank = len(merges) << 32
        self._merges = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(keys, tf.int64), tf.constant(values, tf.int64)
            ),
            self._no_rank,
        )

    def __call__(self, texts: Any) -> Any:
        """[batch] string -> [batch, ragged] int64."""
        cut = tf.strings.regex_replace(texts, _RUN, rb"\1" + _CUT + rb"\2")
        cut = tf.strings.regex_replace(cut, _WORD, rb"\1" + _CUT)
        words = tf.strings.split(cut, sep=_CUT)
        words = tf.ragged.boolean_mask(words, tf.strings.length(words) > 0)
        distinct, index = tf.unique(words.flat_values)
        ids = tf.gather(self._ids(distinct), index)
        return words.with_flat_values(ids).merge_dims(1, 2)

    def _ids(self, words: Any) -> Any:
        """[words] string -> [words, ragged] int64."""
        parts = tf.strings.bytes_split(words)
        values = tf.reshape(tf.io.decode_raw(parts.flat_values, tf.uint8), [-1])
        values = tf.cast(values, tf.int32)
        ids = parts.with_flat_values(tf.gather(self._byte_ids, values)).to_tensor(_NONE)
        columns = tf.shape(ids)[1]
        at = tf.range(columns)[None]

        def best(ids: Any) -> Any:
            pairs = ids[:, :-1] * self._size + ids[:, 1:]
            ranks = self._merges.lookup(tf.where(ids[:, 1:] == _NONE, tf.int64.min, pairs))
            # A column without a pair, so that words of one byte have a least value too.
            return tf.pad(ranks, [[0, 0], [0, 1]], constant_values=self._no_rank)

        def merge(ids: Any, ranks: Any) -> Any:
            place = tf.argmin(ranks, axis=1, output_type=tf.int32)[:, None]
            least = tf.reduce_min(ranks, axis=1, keepdims=True)
            shifted = tf.pad(ids[:, 1:], [[0, 0], [0, 1]], constant_values=_NONE)
            merged = tf.where(at < place, ids, tf.where(at > place, shifted, least & 0xFFFFFFFF))
            ids = tf.where(least < self._no_rank, merged, ids)
            return ids, best(ids)

        ids, _ = tf.while_loop(
            lambda _, ranks: tf.reduce_any(ranks < self._no_rank),
            merge,
            (ids, best(ids)),
            shape_invariants=(tf.TensorShape([None, None]), tf.TensorShape([None, None])),
            parallel_iterations=1,
        )
        return tf.RaggedTensor.from_tensor(ids, padding=_NONE)


def byte_level_bpe(content: bytes) -> ByteLevelBpe | str:
    """The tokenizer of a tokenizer.json, or why it cannot be in a graph."""
    described = json.loads(content)
    model = described["model"]
    if model.get("type") != "BPE":
        return f"its model is {model.get('type')}, not BPE"
    splits = described.get("pre_tokenizer") or {}
    if splits.get("type") != "ByteLevel" or splits.get("add_prefix_space", True):
        return f"it cuts words with {splits.get('type')}, not with the plain ByteLevel"
    if not splits.get("use_regex", True) or described.get("normalizer"):
        return "it has rules of its own for words or a normalizer"
    odd = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    if any(model.get(name) for name in odd):
        return f"its model has one of {', '.join(odd)}"
    if any(not token["special"] for token in described.get("added_tokens", [])):
        return "it finds added tokens in texts"
    ids: dict[str, int] = model["vocab"]
    letters = _letters()
    if not all(letter in ids for letter in letters):
        return "it has no token for some byte"
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    merges = [(ids[left], ids[right], ids[left + right]) for left, right in pairs]
    return ByteLevelBpe([ids[letter] for letter in letters], merges, max(ids.values()) + 1)


def _letters() -> list[str]:
    """The printable letter of each byte, as GPT-2 writes bytes."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    by_byte = {byte: chr(byte) for byte in shown}
    by_byte |= {byte: chr(256 + number) for number, byte in enumerate(hidden)}
    return [by_byte[byte] for byte in range(256)]
