"""Names of files and folders, paths and URLs alike, and what can be done with them."""

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
# What is left of a URL after it was taken for a path, or typed in a hurry.
SINGLE_SLASH: Final = re.compile(rf"({'|'.join(SCHEMES)}):(/(?!/)|$)")
# A store answers in milliseconds, whatever is asked for: ask for much at a time.
READ_BYTES: Final = 8 << 20
# Variables with the settings of stores begin like this.
SETTINGS: Final = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST")


class StoreError(UserError):
    """A store is not there, refuses, or does not answer in time."""


class Entry(NamedTuple):
    """What a folder holds."""

    name: str  # from the folder: "a/b" if that is deep
    kind: str  # "file", "folder" or "other"
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, order=True)
class Address:
    """A path on this machine, or a place in a store: ``Address.of("s3://bucket/folder/file")``.

    Files are there whole or not at all. A store has no folders of its own: what begins alike is in
    one folder, and an empty one is not there. Errors of the machine's own files are OSErrors, those
    of stores StoreErrors, of which each says what to do; a file that is missing raises
    FileNotFoundError in both.

    Where a path is expected, a local address is one, and any other raises.
    """

    root: str  # of a store, as s3://bucket; empty: this machine
    path: str  # inside it

    @classmethod
    def of(cls, place: Place) -> Address:
        """The address that a text or a path means; raises for a URL of no known store."""
        if isinstance(place, Address):
            return place
        text = os.fspath(place)
        found = URL.match(text)
        if found is None:
            if SINGLE_SLASH.match(text):
                scheme = text.partition(":")[0]
                raise UserError(f"{text} is neither a path nor a URL: write {scheme}://...")
            return cls("", str(Path(text)))
        scheme = found[1].lower()
        authority, _, rest = text[found.end() :].partition("/")
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
        """Whether it is a path on this machine."""
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
        """The same without its ending."""
        return PurePosixPath(self.path).stem

    @property
    def parent(self) -> Address:
        """The folder it is in; that of a store's root is itself."""
        if self.is_local:
            return Address("", str(self.local.parent))
        return Address(self.root, self.path.rpartition("/")[0])

    def absolute(self) -> Address:
        """The same, wherever the reader stands."""
        return Address("", str(self.local.absolute())) if self.is_local else self

    def kind(self) -> str | None:
        """``file``, ``folder``, ``other`` (a pipe); None: nothing is there, or not to be seen."""
        with contextlib.suppress(OSError, ValueError):
            return self.entry().kind
        return None

    def is_file(self) -> bool:
        """Whether there is a file."""
        return self.kind() == "file"

    def is_folder(self) -> bool:
        """Whether there is a folder."""
        return self.kind() == "folder"

    def names(self) -> list[str]:
        """What is in the folder, in order; in a store, nothing in one that is not there."""
        return [entry.name for entry in self.entries()]

    def entries(self, *, deep: bool = False) -> list[Entry]:
        """The same with sizes and times; ``deep``: files in folders of folders, and no folders."""
        return sorted(_listed(self.path, deep=deep) if self.is_local else self._stored(deep=deep))

    def size_bytes(self) -> int:
        """The length of a file."""
        return self.entry().size_bytes

    def version(self) -> str:
        """What changes with a file's content: a store's tag, or its length and time."""
        if not self.is_local:
            with self._store() as (store, path), store.open_input_stream(path) as file:
                tag = (file.metadata() or {}).get("ETag")
                if tag:
                    return tag.decode() if isinstance(tag, bytes) else str(tag)
        entry = self.entry()
        return f"{entry.size_bytes}-{entry.mtime_ns}"

    def open(self) -> BinaryIO:
        """The file for reading; it can seek, and of one in a store only what is read is fetched.

        Every read of a store is a request: read ``READ_BYTES`` at a time, or hand it to pyarrow.
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
        opened: Any = self.open()  # of a type that has no readinto
        with opened as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextlib.contextmanager
    def aside(self, *, sync: bool = False) -> Iterator[Path]:
        """Where on this machine to write a file that is put in its place after the block.

        It takes the place of what was there, unless the block raises. ``sync``: it is durable then,
        as a store's always are. What a killed process leaves is in ``files.asides_in`` the folder,
        or, of a store's, in the temporary directory, from where the next one removes it.
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
        """Have the file hold this, in place of what it held."""
        with self.aside(sync=sync) as path:
            path.write_bytes(content)

    def put_file(self, path: Path) -> None:
        """The same with what a local file holds, which may be moved away."""
        if self.is_local:
            os.replace(path, self.path)
        else:
            self._upload(path)

    def make_folder(self) -> None:
        """Make the folder, with those above it; in a store there is nothing to make."""
        if self.is_local:
            self.local.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self.is_local:
            self.local.unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError), self._store() as (store, path):
            store.delete_file(path)

    def remove_folder(self) -> None:
        """Remove the folder with all that is in it, if there is one."""
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
        """What it is, how large and how old; FileNotFoundError if nothing is there."""
        if self.is_local:
            found = os.stat(self.path)
            kind = {stat.S_IFDIR: "folder", stat.S_IFREG: "file"}.get(stat.S_IFMT(found.st_mode))
            return Entry(self.name, kind or "other", found.st_size, found.st_mtime_ns)
        with self._store() as (store, path):
            return _entry(store.get_file_info(path), self.name, str(self))

    def _stored(self, *, deep: bool) -> list[Entry]:
        from pyarrow.fs import FileSelector

        with self._store() as (store, path):
            chosen = FileSelector(path, allow_not_found=True, recursive=deep)
            found = store.get_file_info(chosen)
        start = len(path.rstrip("/")) + 1
        rows = [_entry(info, info.path[start:], str(self)) for info in found]
        return [row for row in rows if not (deep and row.kind == "folder")]

    def _upload(self, path: Path) -> None:
        from pyarrow.fs import LocalFileSystem, copy_files

        with self._store() as (store, target):
            # One call that no interrupt can end half-way: the store makes a file of what it has
            # when the stream is closed, however that comes about.
            copy_files(
                str(path.absolute()),
                target,
                source_filesystem=LocalFileSystem(),
                destination_filesystem=store,
                chunk_size=READ_BYTES,
            )


def scratch_directory() -> Path:
    """A new folder for what is on its way to a store; whoever asks for it removes it."""
    import tempfile

    return files.own_directory(Path(tempfile.gettempdir()), "precedes-upload-")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder on this machine for as long as the block lasts, for what is on its way to a store.

    Those that killed processes have left are removed.
    """
    folder = scratch_directory()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look(addresses: Sequence[Address]) -> list[Entry | None]:
    """What each address is, None if nothing; files of one folder of a store in one request."""
    found: dict[Address, Entry] = {}
    folders = Counter(address.parent for address in addresses if not address.is_local)
    for folder in [folder for folder, count in folders.items() if count > 1]:
        found |= {folder / entry.name: entry for entry in folder.entries()}
    for address in addresses:
        if folders[address.parent] <= 1:
            with contextlib.suppress(OSError):
                found[address] = address.entry()
    return [found.get(address) for address in addresses]


def local_path(text: str) -> Path:
    """The path that a text means; a UserError if it is the URL of a store."""
    return Address.of(text).local


def _listed(folder: str, *, deep: bool, prefix: str = "") -> list[Entry]:
    rows = []
    with os.scandir(folder) as found:
        for entry in found:
            if deep and entry.is_dir():
                if not entry.is_symlink():  # it may lead back to where it is
                    rows += _listed(entry.path, deep=True, prefix=f"{prefix}{entry.name}/")
                continue
            with contextlib.suppress(FileNotFoundError):  # it has just gone
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
    """Work for another machine that opens these addresses with the settings of this process.

    They go with the work, so that they reach machines which were started without them; a machine
    without any of its own may be given a role instead. Work on paths goes as it is.
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
