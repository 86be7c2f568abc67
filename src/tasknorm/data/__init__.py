"""Sources of images, and the episodes drawn from them."""

from tasknorm.data.cache import Cached
from tasknorm.data.direct import Direct
from tasknorm.data.formats.dataset_spec import read_spec, write_spec
from tasknorm.data.formats.records import write_records
from tasknorm.data.sampling.draw import Draw, statistics
from tasknorm.data.sampling.episodes import SCALINGS, Episodes, scaled, signed, standard, unit
from tasknorm.data.sampling.samplers import FixedSampler, Mixture, VariableSampler
from tasknorm.data.sources.folder import Folder
from tasknorm.data.sources.glyphs import Glyphs
from tasknorm.data.sources.named import SOURCES, opened
from tasknorm.data.sources.source import Source
from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError

__all__ = [
    "SCALINGS",
    "SOURCES",
    "Cached",
    "DataError",
    "Direct",
    "Draw",
    "Episodes",
    "FixedSampler",
    "Folder",
    "Glyphs",
    "Mixture",
    "Source",
    "Spec",
    "Split",
    "VariableSampler",
    "opened",
    "read_spec",
    "scaled",
    "signed",
    "standard",
    "statistics",
    "unit",
    "write_records",
    "write_spec",
]
