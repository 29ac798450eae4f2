"""A client for Telethon's `QRLogin` and `sign_in`, whose requests go to a simulated Telegram."""

import asyncio
import secrets
import time
from types import SimpleNamespace
from typing import Any, cast

from qrlogin.simulated.frames import Frame, Kind, read_frame, write_frame
from qrlogin.telegram import Client, ClientMaker
from qrlogin.tl import AuthKey, AuthMethods, StringSession, rpc_message_to_error, types


class Line:
    """One connection to the simulated Telegram for all clients of a process; opened again after it was cut."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._clients: dict[int, SimulatedClient] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._opening = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._number = 0
        self.time_offset = 0.0
        """By how much Telegram's clock is ahead of ours, in seconds."""

    @property
    def connected(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    def join(self, auth: int, client: "SimulatedClient") -> None:
        self._clients[auth] = client

    def part(self, auth: int) -> None:
        self._clients.pop(auth, None)

    async def ask(self, auth: int, body: bytes, kind: Kind = Kind.REQUEST) -> Any:
        """Send a request, and return the object that is the answer."""
        writer = await self._open()
        self._number = number = self._number % 2**31 + 1
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        write_frame(writer, Frame(kind, auth, number, body))
        try:
            return await answer
        finally:
            self._answers.pop(number, None)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                reader, self._writer = await asyncio.open_connection(self._host, self._port)
                self._reading = asyncio.create_task(self._read(reader, self._writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await read_frame(reader)
                self.time_offset = frame.at - time.time()
                if frame.kind is Kind.UPDATE:
                    if frame.auth in self._clients:
                        self._clients[frame.auth].heard(frame.told)
                elif (answer := self._answers.get(frame.number)) is not None and not answer.done():
                    answer.set_result(frame.told)
        except (OSError, EOFError):
            pass
        finally:
            self._writer = None
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the line to the simulated Telegram was cut"))
            writer.close()


class SimulatedClient(AuthMethods):  # type: ignore[misc]
    """What Telethon's own `QRLogin` and `log_out` ask of a client; the session string is Telethon's too."""

    api_id = 1
    api_hash = "simulated"

    def __init__(self, line: Line, session: str = "") -> None:
        self._line = line
        self._sender = SimpleNamespace(_state=line)  # where Telethon keeps the offset of the clocks
        self._mb_entity_cache = SimpleNamespace(set_self_user=lambda *_: None)
        self._handlers: list[tuple[Any, Any]] = []
        self._calls: set[asyncio.Task[Any]] = set()
        self.session = StringSession(session)
        if not session:
            self.session.set_dc(2, "149.154.167.51", 443)
            self.session.auth_key = AuthKey(secrets.randbits(63).to_bytes(8, "big") + secrets.token_bytes(248))
        self._auth = int.from_bytes(self.session.auth_key.key[:8], "big")

    async def connect(self) -> None:
        self._line.join(self._auth, self)

    async def disconnect(self) -> None:
        self._line.part(self._auth)

    async def __call__(self, request: Any) -> Any:
        told = await self._line.ask(self._auth, bytes(request))
        if isinstance(told, types.RpcError):
            raise rpc_message_to_error(told, request)
        return told

    def add_event_handler(self, handler: Any, event: Any) -> None:
        self._handlers.append((handler, event))

    def remove_event_handler(self, handler: Any) -> None:
        self._handlers = [one for one in self._handlers if one[0] is not handler]

    def heard(self, update: Any) -> None:
        """An update has come: call the handlers of its type."""
        for handler, event in self._handlers:
            if isinstance(update, event.types):
                task = asyncio.create_task(handler(update))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)

    async def _on_login(self, user: Any) -> Any:
        return user

    async def _switch_dc(self, dc_id: int) -> None:
        self.session.set_dc(dc_id, "149.154.167.91", 443)


def simulated_clients(line: Line) -> ClientMaker:
    """Clients of the simulated Telegram at the other end of the line."""

    def make(session: str = "") -> Client:
        return cast(Client, SimulatedClient(line, session))

    return make
