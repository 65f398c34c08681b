"""What a run shows of itself while it trains: TensorBoard, pictures, metrics, profiles."""
