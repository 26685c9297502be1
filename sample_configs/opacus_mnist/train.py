"""Train a digit classifier with Opacus from train.yaml, the file that `dpcalc check` looks at."""

from pathlib import Path

import yaml

CONFIG = Path(__file__).with_name("train.yaml")


def settings(path: Path = CONFIG) -> dict:
    """What the loop below is run with."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {
        "root": config["data"]["root"],
        "loader": {"batch_size": config["loader"]["batch_size"], "num_workers": config["loader"]["workers"]},
        "optimizer": config["optimizer"],
        "privacy": {key: config["privacy"][key] for key in ("noise_multiplier", "max_grad_norm")},
        "delta": config["privacy"]["delta"],
        "epochs": config["epochs"],
    }


def main() -> None:
    """Train, and say what Opacus makes of it."""
    import torch
    from opacus import PrivacyEngine
    from torch import nn
    from torchvision import datasets, transforms

    chosen = settings()
    images = datasets.MNIST(chosen["root"], train=True, download=True, transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(images, **chosen["loader"])
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), **chosen["optimizer"])

    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, **chosen["privacy"]
    )
    criterion = nn.CrossEntropyLoss()
    for epoch in range(chosen["epochs"]):
        for inputs, labels in loader:
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: epsilon {engine.get_epsilon(chosen['delta']):.3f} by Opacus")


if __name__ == "__main__":
    main()
