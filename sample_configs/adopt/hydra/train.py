"""A training script that Hydra composes its settings for: `python train.py dp=relaxed`."""


def main():
    import hydra
    import numpy
    from trainer import train

    @hydra.main(version_base="1.3", config_path="conf", config_name="config")
    def run(settings):
        random = numpy.random.default_rng()
        for _ in range(settings.train.num_steps):
            batch = random.choice(settings.data.num_examples, settings.train.batch_size, replace=False)
            train(batch, settings.dp, settings.train.lr)

    run()


if __name__ == "__main__":
    main()
