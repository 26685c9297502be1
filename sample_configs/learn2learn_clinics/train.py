"""MAML with learn2learn, one vector clipped for each clinic, from maml.yaml, the file that `dpcalc check` looks at."""

from pathlib import Path

import yaml

CONFIG = Path(__file__).with_name("maml.yaml")


def settings(path: Path = CONFIG) -> dict:
    """What the loop below is run with."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {key: config[key] for key in ("data", "meta", "inner", "dp")}


def main() -> None:
    """Train."""
    import learn2learn
    import torch
    from clinics import load_clinic, model_for  # the project's own: records and labels of one clinic

    chosen = settings()
    data, meta, inner, dp = chosen["data"], chosen["meta"], chosen["inner"], chosen["dp"]
    maml = learn2learn.algorithms.MAML(model_for(data["root"]), lr=inner["lr"])
    optimizer = torch.optim.Adam(maml.parameters(), lr=meta["outer_lr"])
    criterion = torch.nn.CrossEntropyLoss()
    half = meta["records_per_clinic"] // 2

    for _ in range(meta["iterations"]):
        totals = [torch.zeros_like(weight) for weight in maml.parameters()]
        for clinic in torch.randperm(data["clinics"])[: meta["clinics_per_step"]]:  # without replacement
            inputs, labels = load_clinic(data["root"], int(clinic))
            drawn = torch.randperm(data["records_per_clinic"])[: meta["records_per_clinic"]]
            learner = maml.clone()
            for _ in range(inner["steps"]):
                learner.adapt(criterion(learner(inputs[drawn[:half]]), labels[drawn[:half]]))
            loss = criterion(learner(inputs[drawn[half:]]), labels[drawn[half:]])
            gradients = torch.autograd.grad(loss, list(maml.parameters()))
            norm = torch.sqrt(sum(one.pow(2).sum() for one in gradients))
            scale = min(1.0, dp["clip_norm"] / float(norm))
            for total, gradient in zip(totals, gradients, strict=True):
                total.add_(scale * gradient)
        for weight, total in zip(maml.parameters(), totals, strict=True):
            noise = torch.randn_like(total) * dp["noise_multiplier"] * dp["clip_norm"]
            weight.grad = (total + noise) / meta["clinics_per_step"]  # a fixed divisor
        optimizer.step()


if __name__ == "__main__":
    main()
