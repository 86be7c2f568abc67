"""Downloads from a real server on this machine that misbehaves in every way we know of."""

import fcntl
import hashlib
import io
import resource
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.console import Console

from tasknorm.data.downloads.addresses import ADDRESSES, quickdraw
from tasknorm.data.downloads.download import download
from tasknorm.errors import DataError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
MD5 = hashlib.md5(CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT; the path says what goes wrong, `server.seen` keeps the ranges asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append(self.headers.get("Range"))
        self.close_connection = True
        getattr(self, self.path.strip("/").partition(".")[0])()

    def answer(self, body, announced=None, status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def start(self):
        """Where the client wants to start, if the file has not changed for it."""
        same = self.headers.get("If-Range", self.server.tag) == self.server.tag
        return int((self.headers.get("Range") or "bytes=0-")[6:-1]) if same else 0

    def ranged(self, cut=None):
        start = self.start()
        if start >= len(CONTENT):
            return self.answer(b"", status=416, Content_Range=f"bytes */{len(CONTENT)}")
        body, length = CONTENT[start:cut], len(CONTENT) - start
        if not start:
            return self.answer(body, length, ETag=self.server.tag)
        where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        return self.answer(body, length, 206, ETag=self.server.tag, Content_Range=where)

    def good(self):
        self.ranged()

    def drops(self):
        """Closes the connection after another 300 kB, again and again."""
        self.ranged(cut=self.start() + 300_000)

    def drops_without_range(self):
        self.answer(CONTENT[:1000], len(CONTENT))

    def drops_once_without_range(self):
        self.answer(CONTENT[:1000] if len(self.server.seen) == 1 else CONTENT, len(CONTENT))

    def resumes_elsewhere(self):
        if len(self.server.seen) == 2:
            return self.answer(CONTENT, status=206, Content_Range=f"bytes 5-9/{len(CONTENT)}")
        return self.ranged(cut=1000 if len(self.server.seen) == 1 else None)

    def announces_more(self):
        """Whoever asks for the rest is told the truth."""
        if self.start():
            return self.ranged()
        return self.answer(CONTENT, len(CONTENT) + 1000, ETag=self.server.tag)

    def announces_less(self):
        self.answer(CONTENT, len(CONTENT) - 1000)

    def wrong(self):
        self.answer(b"x" * len(CONTENT))

    def missing(self):
        self.answer(b"no", status=404)

    def busy(self):
        if len(self.server.seen) < 3:
            return self.answer(b"later", status=503)
        return self.ranged()

    def page(self):
        self.answer(b"<html>log in</html>", Content_Type="text/html; charset=utf-8")

    def moved(self):
        self.answer(b"", status=302, Location="/good.bin")

    def endless(self):
        """No length is announced."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(CONTENT + CONTENT)

    def nonsense(self):
        self.wfile.write(b"not http at all\r\n\r\n")

    def silent(self):
        self.server.stop.wait(10)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that hangs up early is no failure of a test."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as running:
        running.seen, running.tag, running.stop = [], '"v1"', threading.Event()
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.stop.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def fetch(server, tmp_path):
    """Download from the server into tmp_path/file; what was printed is in `fetch.screen`."""

    def call(name, **arguments):
        console = Console(file=io.StringIO(), width=150)
        call.screen = console.file
        settings = {"attempts": 3, "pause": 0, "timeout": 5, "console": console} | arguments
        return download(f"http://127.0.0.1:{server.server_port}/{name}.bin", tmp_path / "file", **settings)

    return call


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


GOOD = ["good", "drops", "drops_once_without_range", "announces_more", "resumes_elsewhere", "busy", "moved"]


@pytest.mark.parametrize("name", GOOD)
def test_a_whole_file_arrives(fetch, tmp_path, name):
    assert fetch(name, md5=MD5, sha256=SHA256, size=len(CONTENT) if name != "announces_more" else None) == SHA256
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert listing(tmp_path) == ["file"]


def test_a_broken_connection_resumes(fetch, server):
    fetch("drops", md5=MD5)
    assert server.seen == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", "the MD5 must be"),
        ("announces_less", "the MD5 must be"),
        ("missing", r"missing\.bin: the server answered 404 Not Found; see"),
        ("page", "sent a web page"),
    ],
)
def test_a_wrong_file_leaves_nothing(fetch, tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        fetch(name, md5=MD5)
    assert listing(tmp_path) == []


@pytest.mark.parametrize(("name", "announced"), [("announces_less", 1047576), ("announces_more", 1049576)])
def test_a_known_size_shows_a_lie_at_once(fetch, tmp_path, name, announced):
    with pytest.raises(DataError, match=f"must have 1048576 bytes, the server announces {announced}"):
        fetch(name, size=len(CONTENT))
    assert listing(tmp_path) == []


def test_a_known_size_bounds_an_endless_file(fetch, tmp_path):
    with pytest.raises(DataError, match="the server sent more"):
        fetch("endless", size=len(CONTENT))


@pytest.mark.parametrize("name", ["drops_without_range", "nonsense"])
def test_attempts_end(fetch, server, tmp_path, name):
    with pytest.raises(DataError, match="after 3 failed attempts; run it again later"):
        fetch(name, md5=MD5)
    assert len(server.seen) <= 4
    assert not (tmp_path / "file").exists()


def test_a_silent_server(fetch):
    with pytest.raises(DataError, match="timed out"):
        fetch("silent", attempts=1, timeout=0.2)


def test_no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError, match="stopped at byte 0"):
        download("http://127.0.0.1:9/file", tmp_path / "file", attempts=1, console=Console(quiet=True))


def test_a_later_call_goes_on(fetch, server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:700_000])
    fetch("good", md5=MD5)
    assert server.seen == ["bytes=700000-"]
    assert listing(tmp_path) == ["file"]


def test_without_a_checksum_only_the_same_version_goes_on(fetch, server, tmp_path):
    for tag, asked in ((None, None), ('"v1"', "bytes=700000-"), ('"v0"', "bytes=700000-")):
        (tmp_path / "file.part").write_bytes((CONTENT if tag == '"v1"' else b"old" * len(CONTENT))[:700_000])
        if tag:
            (tmp_path / "file.part.tag").write_text(tag)
        assert fetch("good") == SHA256
        assert server.seen.pop() == asked
        assert listing(tmp_path) == ["file"]
        (tmp_path / "file").unlink()


def test_what_has_arrived_stays_for_the_next_call(fetch, tmp_path):
    with pytest.raises(DataError, match="stopped at byte 300000"):
        fetch("drops", attempts=1)
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:300_000]
    assert fetch("good") == SHA256


def test_the_user_is_told_what_is_not_verified(fetch):
    fetch("good")
    assert f"(SHA-256 {SHA256})" in fetch.screen.getvalue()
    fetch("good", md5=MD5)
    assert "not verified" not in fetch.screen.getvalue()


def test_a_file_that_is_there_is_verified_only(fetch, server, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    assert fetch("good", md5=MD5.upper()) == SHA256
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match="remove the file"):
        fetch("good", md5=MD5)
    assert server.seen == []
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_progress_is_shown(fetch):
    fetch("good", md5=MD5)
    assert "file" in fetch.screen.getvalue()
    assert "1.0/1.0 MB" in fetch.screen.getvalue()


def test_a_full_disk(fetch, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(DataError, match=r"file\.part: the file cannot be written .*; free space"):
            fetch("good", md5=MD5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "file.part").stat().st_size == 500_000
    assert fetch("good", md5=MD5) == SHA256


def test_two_downloads_do_not_mix(fetch, tmp_path):
    with (tmp_path / "file.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)  # as another process does while it downloads
        with pytest.raises(DataError, match="another process"):
            fetch("good")
    assert fetch("good") == SHA256


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/file", "file", "http://", "http://a b/c"])
def test_other_addresses(tmp_path, url):
    with pytest.raises(DataError, match="an address must be"):
        download(url, tmp_path / "file")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        download("http://127.0.0.1:9/file", tmp_path / "taken" / "file")


def test_published_addresses():
    for addresses in ADDRESSES.values():
        for address in addresses:
            assert address.url.startswith("https://")
            assert address.md5 is None or len(bytes.fromhex(address.md5)) == 16
    assert quickdraw("The Eiffel Tower").url.endswith("/The%20Eiffel%20Tower.npy")


@pytest.mark.realdata
def test_published_checksums(data_root):
    for address in ADDRESSES["mnist"]:
        content = (data_root / address.file_name).read_bytes()
        assert (len(content), hashlib.md5(content).hexdigest()) == (address.size, address.md5)
