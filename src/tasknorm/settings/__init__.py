"""What a run can be asked for: its settings, config files, and what the papers prescribe."""

from tasknorm.settings.config import choice_error, meant, read_config
from tasknorm.settings.papers import papers_settings
from tasknorm.settings.pretraining import PretrainSettings
from tasknorm.settings.training import SHARED, Settings, parsed

__all__ = [
    "SHARED",
    "PretrainSettings",
    "Settings",
    "choice_error",
    "meant",
    "papers_settings",
    "parsed",
    "read_config",
]
