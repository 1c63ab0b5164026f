"""Any sequence of hands at work and takeback commands, on real repositories, against a plain model."""
