"""The simulated Telegram: hands out codes, lets phones accept them, checks passwords, and counts what came of it.

As the real one, it forgets a code after its time, accepts each once, tells the waiting client with an update, sends some to
another data centre, and keeps a client that was accepted logged in until it logs out.
"""

import asyncio
import json
import random
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from qrlogin.simulated.frames import Frame, Kind, read_frame, write_frame
from qrlogin.simulated.password import PasswordCheck
from qrlogin.tl import functions, types

MOST_WRONG = 10


@dataclass
class Account:
    """Somebody's."""

    id: int
    name: str
    password: str | None = None

    @property
    def user(self) -> Any:
        return types.User(id=self.id, first_name=self.name, access_hash=self.id)


@dataclass
class Device:
    """A client that wants to log in, as Telegram knows it."""

    writer: asyncio.StreamWriter | None = None
    account: Account | None = None
    """Whose phone has accepted it."""
    authorized: bool = False
    logged_out: bool = False
    wrong: int = 0
    check: PasswordCheck | None = None
    migrating: bytes | None = None


@dataclass
class Refusal(Exception):
    """An error as Telegram tells it."""

    message: str
    code: int = 400


@dataclass
class SimulatedTelegram:
    """`async with SimulatedTelegram() as telegram: … telegram.port`."""

    host: str = "127.0.0.1"
    port: int = 0
    code_seconds: float = 30.0
    """How long a code is good for."""
    migrate: float = 0.0
    """The share of logins that are sent to another data centre."""
    clock: float = 0.0
    """By how many seconds its clock is ahead of ours."""
    silent: bool = False
    """It takes requests and answers none."""
    exports: int = 0
    """Codes that were asked for."""
    devices: dict[int, Device] = field(default_factory=dict)
    codes: dict[bytes, tuple[int, datetime]] = field(default_factory=dict)
    phones: dict[int, Account] = field(default_factory=dict)
    scans: int = 0
    refused: int = 0

    async def __aenter__(self) -> "SimulatedTelegram":
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._writers: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    def logged_in(self) -> list[int]:
        """The accounts of all devices that are logged in, one for each device."""
        return [one.account.id for one in self.devices.values() if one.authorized and one.account]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                frame = await read_frame(reader)
                if frame.kind is Kind.INTRODUCTION:
                    told = json.loads(frame.body)
                    self.phones[frame.auth] = Account(told["id"], told["name"], told["password"])
                    answer: Any = types.InputPeerSelf()
                else:
                    answer = self._answer(frame, writer)
                if self.silent:
                    continue
                write_frame(writer, Frame(Kind.ANSWER, frame.auth, frame.number, bytes(answer), self._time()))
                await writer.drain()
        except (OSError, EOFError, ValueError, asyncio.CancelledError):
            pass  # the line ends, and with it this task
        finally:
            self._writers.discard(writer)
            writer.close()

    def _time(self) -> float:
        return time.time() + self.clock

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._time(), UTC)

    def _answer(self, frame: Frame, writer: asyncio.StreamWriter) -> Any:
        try:
            request = frame.told
            if isinstance(request, functions.auth.AcceptLoginTokenRequest):
                return self._accept(frame.auth, request.token)
            device = self.devices.setdefault(frame.auth, Device())
            device.writer = writer
            return self._of_device(frame.auth, device, request)
        except Refusal as refusal:
            return types.RpcError(refusal.code, refusal.message)

    def _of_device(self, auth: int, device: Device, request: Any) -> Any:
        match request:
            case functions.auth.ExportLoginTokenRequest():
                return self._export(auth, device)
            case functions.auth.ImportLoginTokenRequest(token=token):
                if device.migrating is None or token != device.migrating:
                    raise Refusal("AUTH_TOKEN_INVALID")
                device.migrating = None
                return self._entered(device)
            case functions.account.GetPasswordRequest():
                if device.account is None or device.account.password is None:
                    raise Refusal("SESSION_REVOKED", 401)
                device.check = PasswordCheck(device.account.password)
                return device.check.question()
            case functions.auth.CheckPasswordRequest(password=proof):
                return self._check(device, proof)
            case functions.auth.LogOutRequest():
                if not device.authorized:
                    raise Refusal("AUTH_KEY_UNREGISTERED", 401)
                device.authorized, device.logged_out = False, True
                return types.auth.LoggedOut()
        raise Refusal("METHOD_INVALID")

    def _export(self, auth: int, device: Device) -> Any:
        self.exports += 1
        if device.logged_out:
            raise Refusal("AUTH_KEY_UNREGISTERED", 401)
        if device.account is not None and not device.authorized:
            if device.migrating is None and random.random() < self.migrate:
                device.migrating = secrets.token_bytes(24)
                return types.auth.LoginTokenMigrateTo(dc_id=4, token=device.migrating)
            return self._entered(device)
        now = self._now()
        for old in [code for code, (_, until) in self.codes.items() if until <= now][:100]:
            del self.codes[old]
        code, until = secrets.token_bytes(32), now + timedelta(seconds=self.code_seconds)
        self.codes[code] = auth, until
        return types.auth.LoginToken(expires=until, token=code)

    def _entered(self, device: Device) -> Any:
        assert device.account is not None
        if device.account.password is not None:
            raise Refusal("SESSION_PASSWORD_NEEDED", 401)
        device.authorized = True
        return types.auth.LoginTokenSuccess(types.auth.Authorization(device.account.user))

    def _check(self, device: Device, proof: Any) -> Any:
        if device.wrong >= MOST_WRONG:
            raise Refusal("FLOOD_WAIT_60", 420)
        if device.account is None or device.check is None or proof.srp_id != device.check.srp_id:
            raise Refusal("SRP_ID_INVALID")
        if not device.check.proves(proof):
            device.wrong += 1
            raise Refusal("PASSWORD_HASH_INVALID")
        device.authorized = True
        return types.auth.Authorization(device.account.user)

    def _accept(self, phone: int, code: bytes) -> Any:
        self.scans += 1
        try:
            return self._accepted(phone, code)
        except Refusal:
            self.refused += 1
            raise

    def _accepted(self, phone: int, code: bytes) -> Any:
        if code not in self.codes:
            raise Refusal("AUTH_TOKEN_INVALID")
        auth, until = self.codes[code]
        device = self.devices[auth]
        if until <= self._now():
            raise Refusal("AUTH_TOKEN_EXPIRED")
        if device.account is not None:
            raise Refusal("AUTH_TOKEN_ALREADY_ACCEPTED")
        device.account = self.phones[phone]
        if device.writer is not None and not device.writer.is_closing():
            write_frame(device.writer, Frame(Kind.UPDATE, auth, 0, bytes(types.UpdateLoginToken()), self._time()))
        now = self._now()
        return types.Authorization(
            hash=auth, device_model="qrlogin", platform="simulated", system_version="1", api_id=1,
            app_name="qrlogin", app_version="1", date_created=now, date_active=now, ip="127.0.0.1",
            country="", region="",
        )  # fmt: skip
