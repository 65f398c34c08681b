"""What a checkpoint of 1 GB takes of the training: `python -m benchmarks.checkpoints`.

84 million parameters in Dense layers with AdamW, three float32 numbers for each, on this machine's
CPU, which the steps keep busy. Beside ours, TensorFlow's own checkpoints, which wait for the disk;
in a thread of their own they do not take Keras's variables (TensorFlow 2.21, Keras 3.15).

    pause   until the next step may begin
    stall   that, and what the step behind it takes longer than others
    lost    that, and what all other steps take longer until the checkpoint is written
"""

from __future__ import annotations

from benchmarks.measure import parser, run, write

_WAYS = ("shardmill", "tf.train")
_SHOWN = ("step", "pause", "stall", "lost", "written")


def main() -> None:
    """Measures every way, writes the results."""
    options = parser("checkpoints", __doc__, turns=False)
    options.add_argument("--millions", type=float, default=84, help="of parameters")
    options.add_argument("--saves", type=int, default=3)
    arguments = options.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for way in _WAYS:
        given = (way, arguments.millions, arguments.saves, arguments.work)
        results[way] = run("checkpoint_step", *given).details
        print(way, {name: results[way][name] for name in _SHOWN}, flush=True)
    write("checkpoints", results)


if __name__ == "__main__":
    main()
