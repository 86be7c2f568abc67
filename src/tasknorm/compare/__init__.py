"""Which norm should I use here, and is the result transductive? A learner, trained with several norms and seeds."""

from tasknorm.compare.comparing import Show, compare
from tasknorm.compare.presets import COMPARED, COMPARED_TUNED, PRESETS, SEEDS, SHOT_TUNED, VARIANTS

__all__ = ["COMPARED", "COMPARED_TUNED", "PRESETS", "SEEDS", "SHOT_TUNED", "VARIANTS", "Show", "compare"]
