"""Federated averaging over writers, configured by Hydra from conf/, the files that dpcalc.yaml refers to."""

from pathlib import Path

CONF = Path(__file__).with_name("conf")


def settings(config) -> dict:
    """What the loop below is run with; `config` is what Hydra composed."""
    return {
        "writers": config["data"]["writers"],
        "writers_per_round": config["dp"]["writers_per_round"],
        "noise_multiplier": config["dp"]["noise_multiplier"],
        "clip_norm": config["dp"]["clip_norm"],
        "rounds": config["rounds"],
    }


def train(config) -> None:
    """Rounds of averaging: the sum of clipped updates, noise on the sum, a fixed divisor."""
    import numpy as np
    from clients import initial_weights, local_update  # the project's own: a client's training

    chosen = settings(config)
    random = np.random.default_rng()  # not seeded: who can guess the draw has no amplification by it
    weights = initial_weights()
    for _ in range(chosen["rounds"]):
        drawn = random.choice(chosen["writers"], size=chosen["writers_per_round"], replace=False)
        total = np.zeros_like(weights)
        for writer in drawn:
            update = local_update(weights, writer, **config["client"])
            total += update * min(1.0, chosen["clip_norm"] / np.linalg.norm(update))
        total += random.normal(scale=chosen["noise_multiplier"] * chosen["clip_norm"], size=total.shape)
        weights += config["server"]["lr"] * total / chosen["writers_per_round"]


def main() -> None:
    """Let Hydra compose the config, and train."""
    import hydra

    hydra.main(version_base=None, config_path=str(CONF), config_name="config")(train)()


if __name__ == "__main__":
    main()
