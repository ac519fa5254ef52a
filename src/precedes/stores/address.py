"""Addresses of files and folders, paths and URLs alike, with their operations."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import unquote

from precedes import files
from precedes.errors import UserError, meant

Place = str | os.PathLike[str]
Work = Callable[[Iterator[Any]], Iterator[Any]]

SCHEMES: Final = ("file", "s3", "gs", "abfss", "hdfs")
URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# Remains of a URL that was normalised as a path, or mistyped.
SINGLE_SLASH: Final = re.compile(rf"({'|'.join(SCHEMES)}):(/(?!/)|$)")
# A store answers in milliseconds, whatever the size of a request: request much at a time.
READ_BYTES: Final = 8 << 20
# Variables with the settings of stores begin like this.
SETTINGS: Final = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST")


class StoreError(UserError):
    """A store does not exist, refuses, or does not answer in time."""


class Entry(NamedTuple):
    """An entry of a folder."""

    name: str  # from the folder: "a/b" if that is deep
    kind: str  # "file", "folder" or "other"
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, order=True)
class Address:
    """A path on this machine, or a place in a store: ``Address.of("s3://bucket/folder/file")``.

    Files are written atomically. A store has no folders of its own: names with a common prefix are
    in one folder, and an empty one does not exist. Errors of the machine's own files are OSErrors,
    those of stores StoreErrors, of which each says what to do; a file that is missing raises
    FileNotFoundError in both.

    Where a path is expected, a local address is accepted, and any other raises.
    """

    root: str  # of a store, as s3://bucket; empty: this machine
    path: str  # inside it

    @classmethod
    def of(cls, place: Place) -> Address:
        """The address that a text or a path means; raises for a URL of no known store."""
        if isinstance(place, Address):
            return place
        text = os.fspath(place)
        match = URL.match(text)
        if match is None:
            if SINGLE_SLASH.match(text):
                scheme = text.partition(":")[0]
                raise UserError(f"{text} is neither a path nor a URL: write {scheme}://...")
            return cls("", str(Path(text)))
        scheme = match[1].lower()
        authority, _, rest = text[match.end() :].partition("/")
        if scheme not in SCHEMES:
            known = ", ".join(f"{name}://" for name in SCHEMES)
            raise UserError(
                f"{text}: there is no store {scheme}://{meant(scheme, SCHEMES)}: give a path, or "
                f"one of {known}"
            )
        if scheme == "file":
            if authority not in ("", "localhost"):
                raise UserError(f"{text} is on another machine: write file:///path")
            return cls("", str(Path("/" + unquote(rest))))
        if not authority:
            raise UserError(f"{text} names no bucket or host: write {scheme}://NAME/path")
        return cls(f"{scheme}://{authority}", "/".join(part for part in rest.split("/") if part))

    def __str__(self) -> str:
        return self.path if self.is_local else f"{self.root}/{self.path}".rstrip("/")

    def __fspath__(self) -> str:
        return os.fspath(self.local)

    def __truediv__(self, name: str | PurePosixPath) -> Address:
        if self.is_local:
            return Address("", str(self.local / name))
        return Address(self.root, f"{self.path}/{name}".strip("/"))

    @property
    def is_local(self) -> bool:
        """Return whether it is a path on this machine."""
        return not self.root

    @property
    def local(self) -> Path:
        """The path, of a local one; a UserError for others."""
        if not self.is_local:
            raise UserError(f"{self} is in a store: a path on this machine is needed here")
        return Path(self.path)

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.path).name

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return PurePosixPath(self.path).stem

    @property
    def parent(self) -> Address:
        """The parent folder; that of a store's root is itself."""
        if self.is_local:
            return Address("", str(self.local.parent))
        return Address(self.root, self.path.rpartition("/")[0])

    def absolute(self) -> Address:
        """The same, independent of the current directory."""
        return Address("", str(self.local.absolute())) if self.is_local else self

    def kind(self) -> str | None:
        """``file``, ``folder``, ``other`` (a pipe); None: it does not exist, or is not readable."""
        with contextlib.suppress(OSError, ValueError):
            return self.entry().kind
        return None

    def is_file(self) -> bool:
        """Return whether there is a file."""
        return self.kind() == "file"

    def is_folder(self) -> bool:
        """Return whether there is a folder."""
        return self.kind() == "folder"

    def names(self) -> list[str]:
        """Names in the folder, sorted; in a store, none if it does not exist."""
        return [entry.name for entry in self.entries()]

    def entries(self, *, deep: bool = False) -> list[Entry]:
        """The same with sizes and times; ``deep``: files in folders of folders, and no folders."""
        return sorted(_listed(self.path, deep=deep) if self.is_local else self._stored(deep=deep))

    def size_bytes(self) -> int:
        """The length of a file."""
        return self.entry().size_bytes

    def version(self) -> str:
        """A version that changes with a file's content: a store's tag, or its length and time."""
        if not self.is_local:
            with self._store() as (store, path), store.open_input_stream(path) as file:
                tag = (file.metadata() or {}).get("ETag")
                if tag:
                    return tag.decode() if isinstance(tag, bytes) else str(tag)
        entry = self.entry()
        return f"{entry.size_bytes}-{entry.mtime_ns}"

    def open(self) -> BinaryIO:
        """Open the file for reading; it can seek, and only the parts that are read are fetched.

        Every read of a store is a request: read ``READ_BYTES`` at a time, or pass it to pyarrow.
        """
        if self.is_local:
            return self.local.open("rb")
        with self._store() as (store, path):
            file: BinaryIO = store.open_input_file(path)
        return file

    def read_bytes(self) -> bytes:
        """All of the file."""
        if self.is_local:
            return self.local.read_bytes()
        with self._store() as (store, path), store.open_input_file(path) as file:
            return bytes(file.read())

    def digest(self) -> str:
        """The SHA-256 of the file."""
        opened: Any = self.open()  # of a type without readinto
        with opened as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextlib.contextmanager
    def aside(self, *, sync: bool = False) -> Iterator[Path]:
        """Context manager for a local path to write, moved to the address after the block.

        It replaces the file, unless the block raises. ``sync``: it is durable then,
        as a store's always are. Files left by killed processes are in ``files.asides_in`` the
        folder, or, for a store, in the temporary directory, where the next process removes them.
        """
        if self.is_local:
            with files.aside(self.local, sync=sync) as path:
                yield path
            return
        with scratch() as folder:
            path = folder / (self.name or "file")
            yield path
            self._upload(path)

    def put(self, content: bytes, *, sync: bool = False) -> None:
        """Write the whole file, replacing its contents."""
        with self.aside(sync=sync) as path:
            path.write_bytes(content)

    def put_file(self, path: Path) -> None:
        """The same with the contents of a local file, which may be moved away."""
        if self.is_local:
            os.replace(path, self.path)
        else:
            self._upload(path)

    def make_folder(self) -> None:
        """Make the folder, with its parents; in a store this does nothing."""
        if self.is_local:
            self.local.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the file, if it exists."""
        if self.is_local:
            self.local.unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError), self._store() as (store, path):
            store.delete_file(path)

    def remove_folder(self) -> None:
        """Remove the folder with all that is in it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            if self.is_local:
                shutil.rmtree(self.path)
                return
            with self._store() as (store, path):
                store.delete_dir(path)

    def _store(self) -> contextlib.AbstractContextManager[tuple[Any, str]]:
        """The store and the path in it; in the block its errors are StoreErrors."""
        from precedes.stores.filesystems import opened

        return opened(self)

    def entry(self) -> Entry:
        """Kind, size and time; FileNotFoundError if it does not exist."""
        if self.is_local:
            status = os.stat(self.path)
            kind = {stat.S_IFDIR: "folder", stat.S_IFREG: "file"}.get(stat.S_IFMT(status.st_mode))
            return Entry(self.name, kind or "other", status.st_size, status.st_mtime_ns)
        with self._store() as (store, path):
            return _entry(store.get_file_info(path), self.name, str(self))

    def _stored(self, *, deep: bool) -> list[Entry]:
        from pyarrow.fs import FileSelector

        with self._store() as (store, path):
            chosen = FileSelector(path, allow_not_found=True, recursive=deep)
            listing = store.get_file_info(chosen)
        start = len(path.rstrip("/")) + 1
        rows = [_entry(info, info.path[start:], str(self)) for info in listing]
        return [row for row in rows if not (deep and row.kind == "folder")]

    def _upload(self, path: Path) -> None:
        from pyarrow.fs import LocalFileSystem, copy_files

        with self._store() as (store, target):
            # One call that an interrupt cannot end half-way: the store makes a file of the bytes it
            # has when the stream is closed, for whatever reason.
            copy_files(
                str(path.absolute()),
                target,
                source_filesystem=LocalFileSystem(),
                destination_filesystem=store,
                chunk_size=READ_BYTES,
            )


def scratch_directory() -> Path:
    """A new folder for uploads to a store; the caller removes it."""
    import tempfile

    return files.own_directory(Path(tempfile.gettempdir()), "precedes-upload-")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder on this machine, for uploads to a store.

    Those that killed processes have left are removed.
    """
    folder = scratch_directory()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look(addresses: Sequence[Address]) -> list[Entry | None]:
    """The kind of each address, None if absent; one request for each folder of a store."""
    entries: dict[Address, Entry] = {}
    folders = Counter(address.parent for address in addresses if not address.is_local)
    for folder in [folder for folder, count in folders.items() if count > 1]:
        entries |= {folder / entry.name: entry for entry in folder.entries()}
    for address in addresses:
        if folders[address.parent] <= 1:
            with contextlib.suppress(OSError):
                entries[address] = address.entry()
    return [entries.get(address) for address in addresses]


def local_path(text: str) -> Path:
    """The path of a text; a UserError if it is the URL of a store."""
    return Address.of(text).local


def _listed(folder: str, *, deep: bool, prefix: str = "") -> list[Entry]:
    rows = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if deep and entry.is_dir():
                if not entry.is_symlink():  # it may point to a parent
                    rows += _listed(entry.path, deep=True, prefix=f"{prefix}{entry.name}/")
                continue
            with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                kind = "folder" if entry.is_dir() else "file" if entry.is_file() else "other"
                about = entry.stat(follow_symlinks=kind != "other")
                rows.append(Entry(prefix + entry.name, kind, about.st_size, about.st_mtime_ns))
    return rows


def _entry(info: Any, name: str, title: str) -> Entry:
    if info.type.name == "NotFound":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), title)
    kind = {"File": "file", "Directory": "folder"}.get(info.type.name, "other")
    return Entry(name, kind, info.size or 0, info.mtime_ns or 0)


def handed(work: Work, *addresses: Address) -> Work:
    """Wrap work for another machine that opens these addresses with the settings of this process.

    The settings are sent with the work, so that they reach machines which were started without
    them; a machine without any of its own may be given a role instead. Work on paths is returned
    unchanged.
    """
    return work if all(address.is_local for address in addresses) else _Handed(work)


class _Handed:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._variables = {k: v for k, v in os.environ.items() if k.startswith(SETTINGS)}

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        try:
            yield from self._work(batches)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
