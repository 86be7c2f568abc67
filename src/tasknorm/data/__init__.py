"""Sources of images (`sources`, read by `formats`), and the episodes drawn from them (`sampling`)."""

from tasknorm.data.cache import Cached, damaged_caches
from tasknorm.data.check import bad_images
from tasknorm.data.contact_sheet import sheet
from tasknorm.data.direct import Direct
from tasknorm.data.downloads.fetch import fetch
from tasknorm.data.enough_images import large_enough, task_classes
from tasknorm.data.folds import folded
from tasknorm.data.formats.dataset_spec import read_spec, write_spec
from tasknorm.data.formats.pixels import MAX_PIXELS, Pixels, ResizeName, bilinear, pixels_said
from tasknorm.data.formats.tfrecords import write_records
from tasknorm.data.importing import import_source
from tasknorm.data.left_out import LeftOut, keep_left_out, left_out_classes, left_out_images, tell_left_out
from tasknorm.data.listing import listed
from tasknorm.data.picture_files import class_pictures, named_pictures
from tasknorm.data.places import cache_folder, data_folder
from tasknorm.data.preparation import LARGEST_SIDE, Picture, Pictures, Preparation, Prepared, listed_pictures
from tasknorm.data.sampling.augmentation import AUGMENTATIONS, augmented, shifted
from tasknorm.data.sampling.episode_images import Draw, Sampler, statistics
from tasknorm.data.sampling.episodes import SCALINGS, Episodes, Images, Scale, centred, scaled, signed, standard, unit
from tasknorm.data.sampling.samplers import FixedSampler, Mixture, VariableSampler
from tasknorm.data.sorting import class_folders, copy_into
from tasknorm.data.sources.folder import Folder
from tasknorm.data.sources.glyphs import Glyphs
from tasknorm.data.sources.named import SOURCES, found, opened
from tasknorm.data.sources.source import Source, chosen_split, images_by_class, plain_spec
from tasknorm.data.spec import Spec, Split
from tasknorm.data.usable import usable
from tasknorm.errors import DataError

__all__ = [
    "AUGMENTATIONS",
    "LARGEST_SIDE",
    "MAX_PIXELS",
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
    "Images",
    "LeftOut",
    "Mixture",
    "Picture",
    "Pictures",
    "Pixels",
    "Preparation",
    "Prepared",
    "ResizeName",
    "Sampler",
    "Scale",
    "Source",
    "Spec",
    "Split",
    "VariableSampler",
    "augmented",
    "bad_images",
    "bilinear",
    "cache_folder",
    "centred",
    "chosen_split",
    "class_folders",
    "class_pictures",
    "copy_into",
    "damaged_caches",
    "data_folder",
    "fetch",
    "folded",
    "found",
    "images_by_class",
    "import_source",
    "keep_left_out",
    "large_enough",
    "left_out_classes",
    "left_out_images",
    "listed",
    "listed_pictures",
    "named_pictures",
    "opened",
    "pixels_said",
    "plain_spec",
    "read_spec",
    "scaled",
    "sheet",
    "shifted",
    "signed",
    "standard",
    "statistics",
    "task_classes",
    "tell_left_out",
    "unit",
    "usable",
    "write_records",
    "write_spec",
]
