"""A claim's form as SQL: how a claim is seen, taken, renewed and ended. Claims take rows by it; moves end claims by it."""

from typing import NamedTuple

from raceproof.forms import Columns, Form, Marker, Timestamp
from raceproof.moves.words import Words
from raceproof.quoting import identifier, literal, parameter


class FormSql(NamedTuple):
    """A form as SQL on the row `t`."""

    until: str
    """When the lease is over; NULL if nobody holds the row."""
    ahead: str
    """The lease ends more than twice its length from now: the clock was set back since, and whoever took it may be dead."""
    take: tuple[str, ...]
    renew: tuple[str, ...]
    give_back: tuple[str, ...]


def form_sql(form: Form, words: Words, now: str) -> FormSql:
    """How a claim is seen, taken, renewed and given back. After the end of a claim its fence fits no more."""
    lease = parameter("lease")
    # as far as no lease reaches that was taken by this clock
    twice = words.once(words.plus(words.plus(now, lease), lease))
    match form:
        case Columns(holder=holder, until=until, fence=fence):
            until_, fence_ = f"t.{identifier(until)}", f"t.{identifier(fence)}"
            grown = _grown(fence, words, now)
            ends = f"{identifier(until)} = {words.once(words.plus(now, lease))}"
            return FormSql(
                until=until_,
                # a longer lease than this caller's ends far ahead too; but its fence is no later than the clock
                ahead=f"({until_} > {twice} AND {fence_} > {words.once(words.microseconds(now))})",
                take=(f"{identifier(holder)} = {parameter('by')}", ends, f"{identifier(fence)} = {grown}"),
                renew=(ends,),
                give_back=(
                    f"{identifier(holder)} = NULL",
                    f"{identifier(until)} = NULL",
                    f"{identifier(fence)} = {grown}",
                ),
            )
        case Timestamp(column=column):
            quoted = identifier(column)
            ahead = f"{words.plus(f't.{quoted}', lease)} > {twice}"
            taken = f"{quoted} = {later(quoted, ahead, words, now)}"
            return FormSql(
                until=words.plus(f"t.{quoted}", lease),
                ahead=ahead,
                take=(taken,),
                renew=(taken,),
                give_back=(f"{quoted} = NULL",),
            )
        case Marker(column=column):
            quoted = identifier(column)
            written = f"{literal(form.prefix)} || {parameter('token')} || ':' || {words.seconds_text(now)}"
            return FormSql(
                # a text that is no marker, or a broken one, holds nothing
                until=words.plus(words.marked_at(f"t.{quoted}"), lease),
                ahead=f"{words.plus(words.marked_at(f't.{quoted}'), lease)} > {twice}",
                take=(f"{quoted} = {written}",),
                renew=(f"{quoted} = {written}",),
                give_back=(f"{quoted} = NULL",),
            )


def free(form: FormSql, now: str) -> str:
    """P3: nobody holds the row, or the lease is over by the store's clock; P13: also if that clock was set back."""
    return f"({form.until} IS NULL OR {form.until} <= {now} OR {form.ahead})"


def held_by(form: Form, row: str = "t") -> str:
    """Who holds the row, as text: a name, or what the form keeps instead of one."""
    match form:
        case Columns(holder=holder):
            return f"CAST({row}.{identifier(holder)} AS text)"
        case Timestamp(column=column):
            return f"CAST({row}.{identifier(column)} AS text)"
        case Marker(column=column):
            return f"CASE WHEN {_is_marker(form, f'{row}.{identifier(column)}')} THEN {row}.{identifier(column)} END"


def ended(form: Form, words: Words, now: str) -> dict[str, str]:
    """What ends a claim that another process holds, by column. P4: its fence fits no more, also if the row comes back."""
    match form:
        case Columns(holder=holder, until=until, fence=fence):
            return {holder: "NULL", until: "NULL", fence: _grown(fence, words, now)}
        case Timestamp(column=column):
            return {column: "NULL"}
        case Marker(column=column):
            # any other text is an old error, and stays
            quoted = f"t.{identifier(column)}"
            return {column: f"CASE WHEN {_is_marker(form, quoted)} THEN NULL ELSE {quoted} END"}


def later(quoted: str, ahead: str, words: Words, now: str) -> str:
    """A timestamp that is a fence. P4: no two have the same, also where the clock is coarse, or was set back a little.

    Where it was set back by more, it begins again from now, or nobody could hold the row until the clock is there again.
    """
    least = words.greatest(now, words.step(f"t.{quoted}"))
    return words.unique(f"CASE WHEN {ahead} THEN {now} ELSE {least} END")


def _grown(fence: str, words: Words, now: str) -> str:
    """P4: a fence grows with every claim, also where a lossy failover has forgotten the last ones."""
    return words.greatest(f"COALESCE(t.{identifier(fence)}, 0) + 1", words.once(words.microseconds(now)))


def _is_marker(form: Marker, column: str) -> str:
    return f"substr({column}, 1, {len(form.prefix):d}) = {literal(form.prefix)}"
