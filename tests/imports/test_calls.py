"""Numbers that a training script gives names, read beside the call without running anything."""

import pytest

from dpcalc.errors import InputError
from dpcalc.imports.read import read_run
from dpcalc.imports.run import Terms

CONSTANTS = """
N, RATE = 60_000, None
BATCH = 256
SIGMA: float = 1.1
STEPS = BATCH * 3
{more}
engine.make_private(sample_rate=BATCH / 60_000, noise_multiplier=SIGMA, steps=STEPS, delta=1e-5)
"""


def test_numbers_that_the_file_states_once_are_read(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CONSTANTS.format(more=""), encoding="utf-8")
    (part,) = read_run(str(path), Terms()).parts
    assert part.steps == 768
    assert "noise_multiplier: 1.1" in part.mechanism
    assert "16/3750" in part.sampling or "8/1875" in part.sampling


@pytest.mark.parametrize(
    "more",
    [
        "exec(open('configurator.py').read())",
        "globals().update(settings)",
        "vars()['SIGMA'] = 3",
        "setattr(sys.modules[__name__], 'SIGMA', 3)",
        "def train(SIGMA): pass",
        "if debug:\n    SIGMA = 2.0",
        "for SIGMA in (1, 2): pass",
        "SIGMA += 1",
        "from settings import SIGMA",
        "from settings import *",
        "def set():\n    global SIGMA\n    SIGMA = 3",
        "del SIGMA",
        "class SIGMA: pass",
        "import SIGMA.noise",
        "with open(x) as SIGMA: pass",
        "[0 for SIGMA in x]",
        "(SIGMA := 5)",
        "match x:\n    case {'s': SIGMA}: pass",
    ],
)
def test_a_name_that_may_be_another_number_is_asked_for(tmp_path, more):
    path = tmp_path / "train.py"
    path.write_text(CONSTANTS.format(more=more), encoding="utf-8")
    with pytest.raises(InputError, match="noise_multiplier"):
        read_run(str(path), Terms())
