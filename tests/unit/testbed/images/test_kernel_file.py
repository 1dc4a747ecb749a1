"""What is taken from the files of a kernel: the program within a boot image, and modules in the order of loading."""

import gzip
import lzma
import struct

import pytest

from testbed.errors import BuildFailed
from testbed.images.kernel_file import uncompressed_kernel, wanted_modules

PROGRAM = b"\x7fELF" + bytes(range(256)) * 20


def boot_image(payload, sectors=3):
    image = bytearray((sectors + 1) * 512)
    image[0x1F1] = sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 64, len(payload))
    return bytes(image) + bytes(64) + payload + b"what follows"


@pytest.mark.parametrize(
    "compress", [gzip.compress, lambda program: lzma.compress(program, check=lzma.CHECK_CRC32)], ids=["gzip", "xz"]
)
def test_the_program_is_found_and_decompressed(compress):
    # The kernel's build appends the length of the program.
    payload = compress(PROGRAM) + struct.pack("<I", len(PROGRAM))
    assert uncompressed_kernel(boot_image(payload)) == PROGRAM


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (bytes(2000), "its header does not say HdrS"),
        (b"", "its header does not say HdrS"),
        (boot_image(b"\x28\xb5\x2f\xfd" + bytes(100)), r"neither xz nor gzip \(it begins with 28 b5 2f fd\)"),
        (boot_image(lzma.compress(PROGRAM)[:30] + b"damaged" * 9), "cannot be decompressed"),
        (boot_image(gzip.compress(b"no program") + bytes(4)), "no ELF file"),
    ],
)
def test_another_file_is_an_error(image, message):
    with pytest.raises(BuildFailed, match=message):
        uncompressed_kernel(image)


@pytest.fixture
def tree(tmp_path):
    def add(name, depends=""):
        file = tmp_path / "kernel" / name[:2] / f"{name}.ko"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0name=x\0")

    add("ext4", "jbd2,mbcache,crc16")
    for name in ("jbd2", "mbcache", "crc16"):
        add(name)
    add("xt_mark", "x_tables")
    add("xt_REDIRECT", "nf-nat,x_tables")
    add("x_tables")
    add("nf_nat", "nf_conntrack")
    add("nf_conntrack")
    add("lost", "nowhere")
    return tmp_path


def names(modules):
    return [module.name.removesuffix(".ko") for module in modules]


def test_modules_come_after_those_that_they_depend_on_and_once(tree):
    assert names(wanted_modules(tree, ["ext4", "crc16"])) == ["jbd2", "mbcache", "crc16", "ext4"]
    assert names(wanted_modules(tree, ["xt-*"])) == ["nf_conntrack", "nf_nat", "x_tables", "xt_REDIRECT", "xt_mark"]


def test_a_module_that_is_not_there_is_an_error(tree):
    with pytest.raises(BuildFailed, match="the kernel has no module btrfs below"):
        wanted_modules(tree, ["btrfs"])
    with pytest.raises(BuildFailed, match="the kernel has no module nowhere, which another module depends on"):
        wanted_modules(tree, ["lost"])
