"""Where the sources are published, with the checksums that their publishers or torchvision give.

A file whose checksum nobody publishes has none here; `download` then says that it is not verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

OMNIGLOT = "https://github.com/brendenlake/omniglot/raw/master/python"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"  # the mirror of torchvision; LeCun's site is closed
CIFAR = "https://www.cs.toronto.edu/~kriz"
QUICKDRAW = "https://storage.googleapis.com/quickdraw_dataset/full/numpy_bitmap"


@dataclass(frozen=True)
class Address:
    """A file on a server.

    >>> quickdraw("alarm clock").file_name
    'alarm clock.npy'
    """

    url: str
    md5: str | None = None
    size: int | None = None

    @property
    def file_name(self) -> str:
        """The name to store it under."""
        return unquote(urlsplit(self.url).path.rsplit("/", 1)[-1])


ADDRESSES: dict[str, tuple[Address, ...]] = {
    "omniglot": (
        Address(f"{OMNIGLOT}/images_background.zip", md5="68d2efa1b9178cc56df9314c21c6e718"),
        Address(f"{OMNIGLOT}/images_evaluation.zip", md5="6b91aef0f799c5bb55b94e3f2daec811"),
    ),
    "mnist": (
        Address(f"{MNIST}/t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1648877),
        Address(f"{MNIST}/t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4542),
    ),
    "cifar10": (Address(f"{CIFAR}/cifar-10-binary.tar.gz", md5="c32a1d4ab5d03f1284b67883e8d87530"),),
    "cifar100": (Address(f"{CIFAR}/cifar-100-binary.tar.gz", md5="03b5dce01913d631647c71ecec9e9cb8"),),
}


def quickdraw(class_name: str) -> Address:
    """The bitmaps of one class of Quick Draw; Google publishes no checksums."""
    return Address(f"{QUICKDRAW}/{quote(class_name)}.npy")
