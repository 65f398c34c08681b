"""What a run shows of itself while it trains: TensorBoard, figures, metrics, profiles."""
