"""A loop that draws each example by a coin of its own."""


def main(config):
    import numpy
    from trainer import update

    random = numpy.random.default_rng()
    rate = config.batch_size / config.data.train_size
    for _ in range(config.num_updates):
        update(numpy.flatnonzero(random.random(config.data.train_size) < rate), config.dp)
