"""Where the paper's benchmarks come from: address, size, hash, licence, and who says so."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """One published archive. No number here is guessed: ``facts`` says who published it."""

    title: str
    url: str
    archive: str
    """Name of the archive's file, as it is looked for and stored."""
    top: str
    """The one folder inside the archive that is unpacked."""
    size: int
    """Bytes of the archive."""
    hashes: dict[str, str]
    """Hashes of the archive by algorithm."""
    unpacked: int
    """Bytes to count on once unpacked; more than twice as many are refused as a bomb."""
    licence: str
    facts: str
    """Who says so."""
    classes: int
    train: int | None
    """Training pictures of the official split; None where there is none."""
    pictures: int
    """All pictures, training and test."""
    files: dict[str, str] = field(default_factory=dict)
    """md5 of single files inside, where they are published."""


CIFAR100 = Source(
    title="CIFAR-100 (A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009)",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive="cifar-100-python.tar.gz",
    top="cifar-100-python",
    size=169_001_437,
    hashes={"md5": "eb9058c3a382ffc7106e4002c42a8d85"},
    unpacked=190_000_000,
    licence="none stated",
    facts="the hash and those of the files inside are the ones in torchvision.datasets.CIFAR100; the size is what its "
    "download shows in PyTorch's tutorials",
    classes=100,
    train=50_000,
    pictures=60_000,
    files={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
)

IMAGENET_R = Source(
    title="ImageNet-R (D. Hendrycks et al., The Many Faces of Robustness, ICCV 2021)",
    url="https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
    archive="imagenet-r.tar",
    top="imagenet-r",
    size=2_191_079_936,
    hashes={
        "md5": "a61312130a589d0ca1a8fca1f2bd3337",
        "sha256": "18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52",
    },
    unpacked=2_300_000_000,
    licence="none stated by its authors",
    facts="size and sha256 are those of TensorFlow Datasets (imagenet_r), the md5 stands in many public loaders",
    classes=200,
    train=None,
    pictures=30_000,
)

IMAGENET_SKETCH = Source(
    title="ImageNet-Sketch (H. Wang et al., Learning Robust Global Representations by Penalizing Local Predictive "
    "Power, NeurIPS 2019)",
    url="https://huggingface.co/datasets/songweig/imagenet_sketch/resolve/main/data/ImageNet-Sketch.zip",
    archive="ImageNet-Sketch.zip",
    top="sketch",
    size=7_593_573_012,
    hashes={"sha256": "4d3ce6b82a7c48aabf14aeac105eb533e75707f152cc858f55bfc022031a72ed"},
    unpacked=8_400_000_000,
    licence="MIT for its authors' repository; of the pictures, found on the web, nothing is stated",
    facts="size and sha256 are those of TensorFlow Datasets (imagenet_sketch) for the authors' own link, and the same "
    "in Hugging Face's dataset_infos.json for this address; both count 50,889 pictures, the authors' README 8.4 GB "
    "unpacked",
    classes=1000,
    train=None,
    pictures=50_889,
)

CUB200 = Source(
    title="Caltech-UCSD Birds-200-2011 (C. Wah et al., technical report CNS-TR-2011-001, 2011)",
    url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
    archive="CUB_200_2011.tgz",
    top="CUB_200_2011",
    size=1_150_585_339,
    hashes={
        "md5": "97eceeb196236b17998738112f37df78",
        "sha256": "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
    },
    unpacked=1_300_000_000,
    licence="none stated in the archive; its pictures are their photographers'",
    facts="size and sha256 are those of TensorFlow Datasets (caltech_birds2011), the md5 stands in many public loaders",
    classes=200,
    train=5_994,
    pictures=11_788,
)

SOURCES: dict[str, Source] = {
    "split-cifar100": CIFAR100,
    "split-imagenet-r": IMAGENET_R,
    "split-imagenet-sketch": IMAGENET_SKETCH,
    "split-cub200": CUB200,
}
"""By the benchmark's registered name."""
