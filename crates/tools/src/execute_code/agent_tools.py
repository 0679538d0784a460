"""The tools of the agent that runs this script, as functions.

They are names of the script already. Each call is judged and recorded like a call of the agent. One
that fails raises ToolError. Calls may come from several threads.
"""

from __future__ import annotations

import itertools
import json
import linecache
import os
import re
import sys
import threading
import types

__all__ = [
    "Text",
    "ToolError",
    "edit_file",
    "read_file",
    "search_files",
    "terminal",
    "web_fetch",
    "web_search",
    "write_file",
]


class ToolError(Exception):
    """A call failed. status is 'error', 'denied' or 'cancelled'."""

    def __init__(self, text: str, status: str = "error") -> None:
        super().__init__(text)
        self.status = status


class Text(str):
    """A str with the remarks of the tool in .notes, such as what was left out."""

    notes: list[str]

    def __new__(cls, text: str, notes: list[str]) -> Text:
        self = super().__new__(cls, text)
        self.notes = notes
        return self


def read_file(path: str, offset: int | None = None, limit: int | None = None) -> Text:
    """Return the text of a file: all of it, or `limit` lines from line `offset` on."""
    first = offset or 1
    lines: list[str] = []
    while True:
        reply = _call("read_file", path=path, offset=first, limit=limit)
        notes = reply["notes"]
        cut = next((note for note in notes if " and is cut" in note), None)
        if cut:
            raise ToolError(f"{path} has a line that is too long for this function: {cut}")
        page = [line.partition("\t")[2] for line in reply["content"].split("\n")]
        lines += page if reply["content"] else []
        more = next((note for note in notes if "; to go on: offset " in note), None)
        if limit is not None or more is None:
            break
        first = int(more.rpartition(" ")[2])
    end = "\r\n" if any(note.startswith("lines end in CRLF") for note in notes) else "\n"
    text = "".join(line + end for line in lines)
    if "no newline at the end" in notes:
        text = text[: -len(end)]
    _unlike_text[_key(path)] = next(filter(_is_lost_by_write, notes), None)
    return Text(text, notes)


# For each path that was read what of the file its text does not say.
_unlike_text: dict[str, str | None] = {}
_START = os.getcwd()


def _key(path: str) -> str:
    return os.path.realpath(os.path.join(_START, path))


def _is_lost_by_write(note: str) -> bool:
    begins = ("it begins with a byte order mark", "decoded from UTF-16", "not UTF-8;")
    return note.startswith(begins) or note.endswith("lines end in CRLF, the others in LF")


def write_file(path: str, content: str) -> Text:
    """Create a file, or replace one that was read."""
    lost = _unlike_text.get(_key(path))
    if lost:
        raise ToolError(f"write_file: {path} would lose how it is written down: {lost}: use edit_file")
    return _text(_call("write_file", path=path, content=content))


def edit_file(path: str, old: str, new: str, all: bool = False) -> Text:
    """Replace text in a file that was read. Return the diff."""
    return _text(_call("edit_file", path=path, old=old, new=new, all=all))


def search_files(
    pattern: str | None = None,
    path: str | None = None,
    *,
    glob: str | None = None,
    mode: str | None = None,
    ignore_case: bool = False,
    context: int | None = None,
    limit: int | None = None,
    offset: int | None = None,
) -> Text:
    """Return lines `path:line:text` that match a regular expression; without one, files by glob."""
    return _text(
        _call(
            "search_files",
            pattern=pattern,
            path=path,
            glob=glob,
            mode=mode,
            ignore_case=ignore_case,
            context=context,
            limit=limit,
            offset=offset,
        )
    )


def terminal(command: str, timeout_seconds: int | None = None) -> dict:
    """Run a command in the agent's shell. Return {'output': str, 'exit_code': int or None, 'notes'}."""
    reply = _call("terminal", command=command, timeout_seconds=timeout_seconds)
    return {
        "output": reply["content"],
        "exit_code": reply.get("exit_code"),
        "notes": reply["notes"],
    }


def web_fetch(url: str, offset: int | None = None, whole: bool = False) -> Text:
    """Return a page, a JSON document or a PDF file as text. .notes says where a long one goes on."""
    return _text(_call("web_fetch", url=url, offset=offset, whole=whole))


def web_search(query: str, limit: int | None = None) -> list[dict]:
    """Search the web. Return [{'title': str, 'url': str, 'snippet': str}]."""
    reply = _call("web_search", query=query, limit=limit)
    found = re.findall(r"^\d+\. (.*)\n   (.*)\n(?:   (.*)\n)?", reply["content"], re.MULTILINE)
    return [{"title": title, "url": url, "snippet": text} for title, url, text in found]


def _text(reply: dict) -> Text:
    return Text(reply["content"], reply["notes"])


def _call(tool: str, **arguments: object) -> dict:
    given = {name: value for name, value in arguments.items() if value is not None}
    reply = _connection.call(tool, given)
    if reply["status"] != "ok":
        raise ToolError(f"{tool}: {reply['content']}", reply["status"])
    return reply


class _Connection:
    """The socket to the agent. One thread at a time reads, and hands the replies out."""

    def __init__(self, socket, reader, limit: int) -> None:
        self._socket = socket
        self._reader = reader
        self._limit = limit
        self._process = os.getpid()
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._state = threading.Condition()
        self._replies: dict[int, dict] = {}
        self._is_reading = False
        self._is_closed = False

    def call(self, tool: str, arguments: dict) -> dict:
        if os.getpid() != self._process:
            raise ToolError(f"{tool}: a forked process cannot call tools; call them before or after")
        number = next(self._numbers)
        line = json.dumps({"id": number, "tool": tool, "arguments": arguments}).encode() + b"\n"
        if len(line) > self._limit:
            raise ToolError(
                f"{tool}: the call has {len(line)} bytes and {self._limit} is the most: send less at once"
            )
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
            self._is_closed = True
        return self._reply(number)

    def _reply(self, number: int) -> dict:
        while True:
            with self._state:
                self._state.wait_for(
                    lambda: number in self._replies or self._is_closed or not self._is_reading
                )
                if number in self._replies:
                    return self._replies.pop(number)
                if self._is_closed:
                    raise ToolError("the connection with the agent is closed: no more calls")
                self._is_reading = True
            line = b""
            try:
                line = self._reader.readline()
            except OSError:
                pass
            finally:
                with self._state:
                    self._is_reading = False
                    self._is_closed = self._is_closed or not line.endswith(b"\n")
                    if not self._is_closed:
                        reply = json.loads(line)
                        self._replies[reply["id"]] = reply
                    self._state.notify_all()


def _run(socket, reader, start: dict) -> None:
    """Run the script as the main module."""
    global _connection
    _connection = _Connection(socket, reader, start["limit"])
    script = start["script"]
    name = "<script>"
    linecache.cache[name] = (len(script), None, script.splitlines(True), name)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    here = globals()
    main.__dict__.update({function: here[function] for function in __all__})
    sys.argv = [name]
    try:
        exec(compile(script, name, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        import traceback

        trace = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, trace)
        sys.stderr.flush()
        raise SystemExit(1) from None
