"""A training script with flags and Opacus, as they stand in many repositories."""

import argparse


def arguments():
    parser = argparse.ArgumentParser(description="Opacus CIFAR-10 example")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("-b", "--batch-size", type=int, default=500)
    parser.add_argument("--batch-size-test", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--sigma", type=float, default=1.5)
    parser.add_argument("-c", "--max-per-sample-grad_norm", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--log-dir", default="logs")
    return parser


def main():
    import torch
    from opacus import PrivacyEngine
    from torchvision import datasets, models

    args = arguments().parse_args()
    data = torch.utils.data.DataLoader(datasets.CIFAR10("data", train=True), batch_size=args.batch_size)
    model = models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    model, optimizer, data = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=data,
        noise_multiplier=args.sigma,
        max_grad_norm=args.max_per_sample_grad_norm,
    )
    for _ in range(args.epochs):
        for images, labels in data:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
