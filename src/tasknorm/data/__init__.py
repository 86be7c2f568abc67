"""Sources of images, and the episodes drawn from them."""

from tasknorm.data.cache import Cached
from tasknorm.data.dataset_spec import read_spec, write_spec
from tasknorm.data.direct import Direct
from tasknorm.data.draw import Draw, statistics
from tasknorm.data.episodes import SCALINGS, Episodes, scaled, signed, standard, unit
from tasknorm.data.errors import DataError
from tasknorm.data.folder import Folder
from tasknorm.data.glyphs import Glyphs
from tasknorm.data.named import SOURCES, opened
from tasknorm.data.records import write_records
from tasknorm.data.sampling import FixedSampler, Mixture, VariableSampler
from tasknorm.data.source import Source
from tasknorm.data.spec import Spec, Split

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
