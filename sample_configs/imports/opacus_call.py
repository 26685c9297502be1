"""A part of a training script: `dpcalc import` reads the call and runs nothing."""

from opacus.accountants.utils import get_noise_multiplier

noise_multiplier = get_noise_multiplier(target_epsilon=3.0, target_delta=1e-5, sample_rate=1 / 235, epochs=60)
