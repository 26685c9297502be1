"""Record states of other libraries, and what those libraries print for them, into the folder `recorded`.

Needs opacus 1.6.0 with torch, and dp-accounting 0.6.0, none of which the tests need:

    python tests/imports/record.py
"""

import json
import math
import pickle
from importlib.metadata import version
from pathlib import Path

import torch
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant, RDPAccountant
from opacus.accountants.utils import get_noise_multiplier

FOLDER = Path(__file__).parent / "recorded"
DELTA = 1e-5


def opacus_states() -> dict[str, object]:
    """Train a toy model under a real engine, with a change of the noise, and save its accountant in four forms."""
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.utils.data.TensorDataset(torch.randn(300, 2), torch.randn(300, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    )
    for epoch in range(3):
        optimizer.noise_multiplier = 1.1 if epoch < 2 else 1.5
        for inputs, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    engine.save_checkpoint(path=FOLDER / "opacus_engine.pt", module=model, optimizer=optimizer)
    state = engine.accountant.state_dict()
    torch.save(state, FOLDER / "opacus_accountant.pt")
    torch.save(state, FOLDER / "opacus_legacy.pt", _use_new_zipfile_serialization=False)
    (FOLDER / "opacus_accountant.json").write_text(json.dumps(state) + "\n")
    (FOLDER / "opacus_accountant.pickle").write_bytes(pickle.dumps(state))
    prv = PRVAccountant()
    prv.history = list(engine.accountant.history)
    return {
        "file": "opacus_engine.pt",
        "history": engine.accountant.history,
        "rdp": engine.accountant.get_epsilon(delta=DELTA),
        "prv": prv.get_epsilon(delta=DELTA),
    }


def opacus_long_run() -> dict[str, object]:
    """Save the state of an accountant after 60 epochs of MNIST, with the epsilons of both accountants."""
    rdp, prv = RDPAccountant(), PRVAccountant()
    for accountant in (rdp, prv):
        accountant.history = [(1.1, 1 / 235, 14_100)]
    (FOLDER / "opacus_mnist.json").write_text(json.dumps(prv.state_dict()) + "\n")
    noise = get_noise_multiplier(target_epsilon=3.0, target_delta=DELTA, sample_rate=1 / 235, epochs=60)
    return {
        "file": "opacus_mnist.json",
        "history": rdp.history,
        "rdp": rdp.get_epsilon(delta=DELTA),
        "prv": prv.get_epsilon(delta=DELTA),
        "noise_for_3": noise,
    }


def events() -> list[dict[str, object]]:
    """Print the events of `recorded` in both forms, with the epsilons of the accountants that support them."""
    relations = {"fixed_size": NeighboringRelation.REPLACE_ONE, "single_tree": NeighboringRelation.REPLACE_SPECIAL}
    answers = []
    for path in sorted(FOLDER.glob("event_*.txt")):
        name = path.stem.removeprefix("event_")
        if name.endswith("_tuple"):
            continue
        event = eval(path.read_text(), vars(dp_event) | {"inf": math.inf})  # noqa: S307  our own
        path.write_text(f"{event!r}\n")
        path.with_stem(f"{path.stem}_tuple").write_text(f"{event.to_named_tuple()!r}\n")
        answer = {"file": f"event_{name}.txt"}
        relation = relations.get(name, NeighboringRelation.ADD_OR_REMOVE_ONE)
        for kind, make in (("rdp", RdpAccountant), ("pld", PLDAccountant)):
            accountant = make(neighboring_relation=relation)
            if accountant.supports(event):
                answer[kind] = accountant.compose(event).get_epsilon(DELTA)
        answers.append(answer)
    return answers


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    versions = {name: version(name) for name in ("opacus", "torch", "dp-accounting")}
    answers = {"versions": versions, "delta": DELTA, "answers": [opacus_states(), opacus_long_run(), *events()]}
    (FOLDER / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
