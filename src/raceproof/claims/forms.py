"""A claim's form as SQL: how a claim is seen, taken, renewed and ended. Claims take rows by it; moves end claims by it."""

from typing import NamedTuple

from raceproof.declare.claim_forms import ClaimColumns, Form, TextMarker, TimestampClaim
from raceproof.kernel.dialect import SqlDialect
from raceproof.kernel.quoting import identifier, literal, parameter


class FormSql(NamedTuple):
    """A form as SQL on the row `t`."""

    until: str
    """When the lease is over; NULL if the row has no holder."""
    ahead: str
    """The lease ends more than twice its length from now: the clock was set back since, and whoever took it may be dead."""
    take: tuple[str, ...]
    renew: tuple[str, ...]
    give_back: tuple[str, ...]


def form_sql(form: Form, dialect: SqlDialect, now: str) -> FormSql:
    """How a claim is seen, taken, renewed and given back. After the end of a claim its fence fits no more."""
    lease = parameter("lease")
    # as far as no lease reaches that was taken by this clock
    twice = dialect.once(dialect.plus(dialect.plus(now, lease), lease))
    match form:
        case ClaimColumns(holder=holder, until=until, fence=fence):
            until_, fence_ = f"t.{identifier(until)}", f"t.{identifier(fence)}"
            grown = _grown(fence, dialect, now)
            ends = f"{identifier(until)} = {dialect.once(dialect.plus(now, lease))}"
            return FormSql(
                until=until_,
                # a longer lease than this caller's ends far ahead too; but its fence is no later than the clock
                ahead=f"({until_} > {twice} AND {fence_} > {dialect.once(dialect.microseconds(now))})",
                take=(f"{identifier(holder)} = {parameter('by')}", ends, f"{identifier(fence)} = {grown}"),
                renew=(ends,),
                give_back=(
                    f"{identifier(holder)} = NULL",
                    f"{identifier(until)} = NULL",
                    f"{identifier(fence)} = {grown}",
                ),
            )
        case TimestampClaim(column=column):
            quoted = identifier(column)
            ahead = f"{dialect.plus(f't.{quoted}', lease)} > {twice}"
            taken = f"{quoted} = {dialect.later(quoted, ahead, now)}"
            return FormSql(
                until=dialect.plus(f"t.{quoted}", lease),
                ahead=ahead,
                take=(taken,),
                renew=(taken,),
                give_back=(f"{quoted} = NULL",),
            )
        case TextMarker(column=column):
            quoted = identifier(column)
            written = f"{literal(form.prefix)} || {parameter('token')} || ':' || {dialect.seconds_text(now)}"
            return FormSql(
                # a text that is no marker, or a broken one, holds nothing
                until=dialect.plus(dialect.marked_at(f"t.{quoted}"), lease),
                ahead=f"{dialect.plus(dialect.marked_at(f't.{quoted}'), lease)} > {twice}",
                take=(f"{quoted} = {written}",),
                renew=(f"{quoted} = {written}",),
                give_back=(f"{quoted} = NULL",),
            )


def free(form: FormSql, now: str) -> str:
    """P3: the row has no holder, or the lease is over by the store's clock; P13: also if that clock was set back."""
    return f"({form.until} IS NULL OR {form.until} <= {now} OR {form.ahead})"


def held_by(form: Form, row: str = "t") -> str:
    """Who holds the row, as text: a name, or what the form keeps instead of one."""
    match form:
        case ClaimColumns(holder=holder):
            return f"CAST({row}.{identifier(holder)} AS text)"
        case TimestampClaim(column=column):
            return f"CAST({row}.{identifier(column)} AS text)"
        case TextMarker(column=column):
            return f"CASE WHEN {_is_marker(form, f'{row}.{identifier(column)}')} THEN {row}.{identifier(column)} END"


def ended(form: Form, dialect: SqlDialect, now: str) -> dict[str, str]:
    """What ends a claim that another process holds, by column. P4: its fence fits no more, also if the row comes back."""
    match form:
        case ClaimColumns(holder=holder, until=until, fence=fence):
            return {holder: "NULL", until: "NULL", fence: _grown(fence, dialect, now)}
        case TimestampClaim(column=column):
            return {column: "NULL"}
        case TextMarker(column=column):
            # any other text is an old error, and stays
            quoted = f"t.{identifier(column)}"
            return {column: f"CASE WHEN {_is_marker(form, quoted)} THEN NULL ELSE {quoted} END"}


def _grown(fence: str, dialect: SqlDialect, now: str) -> str:
    """P4: a fence grows with every claim, also where a lossy failover has forgotten the last ones."""
    return dialect.greatest(f"COALESCE(t.{identifier(fence)}, 0) + 1", dialect.once(dialect.microseconds(now)))


def _is_marker(form: TextMarker, column: str) -> str:
    return f"substr({column}, 1, {len(form.prefix):d}) = {literal(form.prefix)}"
