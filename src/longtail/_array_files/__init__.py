"""Directories of arrays: ``manifest.json`` and one mapped ``.npy`` an array, written whole or not at all.

Models, checkpoints and CSR directories are all of this kind; docs/format.md has the layout and the rules.
"""

from longtail._array_files.publish import check_target, staged
from longtail._array_files.reader import ArrayDirectory, read_arrays, read_directory
from longtail._array_files.specs import ArraySpec
from longtail._array_files.verification import DamagedFileError, Verification
from longtail._array_files.writer import write_arrays, write_folder

__all__ = [
    "ArrayDirectory",
    "ArraySpec",
    "DamagedFileError",
    "Verification",
    "check_target",
    "read_arrays",
    "read_directory",
    "staged",
    "write_arrays",
    "write_folder",
]
