"""What a run can be asked for: its settings, config files, and what the papers prescribe."""

from tasknorm.settings.config import choice_error, meant, read_config
from tasknorm.settings.papers import papers_settings
from tasknorm.settings.pretraining import PretrainSettings
from tasknorm.settings.training import AS_IT_WAS, SHARED, START, Settings, parsed
from tasknorm.settings.tuning import for_tuning

__all__ = [
    "AS_IT_WAS",
    "SHARED",
    "START",
    "PretrainSettings",
    "Settings",
    "choice_error",
    "for_tuning",
    "meant",
    "papers_settings",
    "parsed",
    "read_config",
]
