"""Settings of a JAX run: `python train.py --config=config.py`."""

import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.seed = 7
    config.data = ml_collections.ConfigDict()
    config.data.name = "cifar10"
    config.data.train_size = 50_000
    config.optimizer = ml_collections.ConfigDict()
    config.optimizer.learning_rate = 2.0
    config.optimizer.momentum = 0.9
    config.dp = ml_collections.ConfigDict()
    config.dp.noise_multiplier = 5.0
    config.dp.clipping_norm = 1.0
    config.dp.delta = 1e-5
    config.batch_size = 4096
    config.num_updates = 875
    return config
