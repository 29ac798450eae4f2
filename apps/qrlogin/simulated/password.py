"""The server's side of Telegram's passwords (SRP): it checks one without ever seeing it."""

import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from qrlogin.tl import srp, types

_PRIME = bytes.fromhex(
    "c71caeb9c6b1c9048e6c522f70f13f73980d40238e3e21c14934d037563d930f48198a0aa7c14058229493d22530f4db"
    "fa336f6e0ac925139543aed44cce7c3720fd51f69458705ac68cd4fe6b6b13abdc9746512969328454f18faf8c595f64"
    "2477fe96bb2a941d5bcd1d4ac8cc49880708fa9b378e3c4f3a9060bee67cf9a4a4a695811051907e162753b56b0f6b41"
    "0dba74d8a84b2a14b3144e0ef1284754fd17ed950d5965b4b9dd46582db1178d169c6bc465b0d6ff9ca3928fef5b9ae4"
    "e418fc15e83ebea0f87fa9ff5eed70050ded2849f47bf959d956850ce929851f0d8115f635b105ee2e4e15d04b2454bf"
    "6f4fadf034b10403119cd8e3b92fcc5b"
)
_G = 3


@lru_cache(maxsize=64)
def _algorithm(password: str) -> tuple[Any, int]:
    """Salts, and what is kept of a password: g to the power of its hash."""
    made = types.PasswordKdfAlgoSHA256SHA256PBKDF2HMACSHA512iter100000SHA256ModPow(
        salt1=secrets.token_bytes(16), salt2=secrets.token_bytes(16), g=_G, p=_PRIME
    )
    return made, int.from_bytes(srp.compute_digest(made, password), "big")


@dataclass
class PasswordCheck:
    """One exchange: what the client is asked, and whether its proof is right."""

    password: str

    def __post_init__(self) -> None:
        self._algorithm, self._kept = _algorithm(self.password)
        prime = int.from_bytes(_PRIME, "big")
        self._secret = int.from_bytes(secrets.token_bytes(32), "big")  # short is quick, and enough here
        multiplier = int.from_bytes(srp.sha256(_PRIME, srp.big_num_for_hash(_G)), "big")
        self._public = (multiplier * self._kept + pow(_G, self._secret, prime)) % prime
        self.srp_id = secrets.randbits(62)

    def question(self) -> Any:
        return types.account.Password(
            new_algo=types.PasswordKdfAlgoUnknown(),
            new_secure_algo=types.SecurePasswordKdfAlgoUnknown(),
            secure_random=b"",
            has_password=True,
            current_algo=self._algorithm,
            srp_B=srp.big_num_for_hash(self._public),
            srp_id=self.srp_id,
        )

    def proves(self, told: Any) -> bool:
        """Whether the client knows the password."""
        prime = int.from_bytes(_PRIME, "big")
        theirs, ours = int.from_bytes(told.A, "big"), srp.big_num_for_hash(self._public)
        mixed = int.from_bytes(srp.sha256(told.A, ours), "big")
        shared = pow(theirs * pow(self._kept, mixed, prime), self._secret, prime)
        algorithm = self._algorithm
        proof = srp.sha256(
            srp.xor(srp.sha256(_PRIME), srp.sha256(srp.big_num_for_hash(_G))),
            srp.sha256(algorithm.salt1),
            srp.sha256(algorithm.salt2),
            told.A,
            ours,
            srp.sha256(srp.big_num_for_hash(shared)),
        )
        return secrets.compare_digest(proof, told.M1)
