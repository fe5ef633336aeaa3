"""Files that zstd has packed, as web-crawled corpora come; needs `pip install 'aiayn[zst]'`."""

import io
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from aiayn.errors import UsageError

# Of packed bytes that are read at once.
CHUNK = 1 << 17
# Larger windows than the usual 128 MB need an option of zstd's when they are packed.
LARGEST_WINDOW = 1 << 31


def open_zst(path: Path, mode: str = "rb") -> IO[bytes]:
    """Open a file for reading."""
    try:
        zstandard = import_module("zstandard")
    except ModuleNotFoundError:
        raise UsageError(
            f"{path} is packed by zstd, and zstandard is not installed",
            fix="pip install 'aiayn[zst]', or pipe it in: zstd -dc FILE | ...",
        ) from None
    return io.BufferedReader(UnpackedZst(path.open(mode), zstandard), CHUNK)


class UnpackedZst(io.RawIOBase):
    """The content of a packed file, as raw bytes; a file that is cut short is an error."""

    def __init__(self, file: IO[bytes], zstandard: Any) -> None:
        super().__init__()
        self._file, self._zstandard = file, zstandard
        self._frame: Any = None
        # Unpacked and not yet read; packed and of the next frame.
        self._ready, self._left = memoryview(b""), b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0: the file ends here."""
        while not self._ready:
            packed = self._left or self._file.read(CHUNK)
            if not packed:
                if self._frame is not None:
                    raise EOFError("it is cut short")
                return 0
            self._ready = memoryview(self._unpack(packed))
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _unpack(self, packed: bytes) -> bytes:
        """Return what a chunk unpacks to; a file may be several frames, one after another."""
        if self._frame is None:
            packer = self._zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
            self._frame = packer.decompressobj()
        try:
            unpacked: bytes = self._frame.decompress(packed)
        except self._zstandard.ZstdError as problem:
            raise OSError(str(problem)) from None
        self._left = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return unpacked

    def close(self) -> None:
        """Close the packed file too."""
        self._file.close()
        super().close()
