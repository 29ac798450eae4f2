"""Pictures for the pages, as SVG without styles or scripts of their own: the style sheet of the dashboard paints them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

from raceproof.declare.spec import Spec
from raceproof.ops.diagram import svg
from raceproof.ops.web.queries.leases import Band
from raceproof.ops.web.queries.rows import Count

_SVG = "{http://www.w3.org/2000/svg}"
ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
_LANE = 26
_LEFT = 170
_WIDTH = 900
_HEADING = 48  # the page says itself which lifecycle it is


@lru_cache(maxsize=128)
def _drawn(spec: Spec[Any]) -> str:
    return svg(spec)


def diagram_style(spec: Spec[Any]) -> str:
    """The colours of diagrams, for the style sheet."""
    found = re.search(r"<style>\n(.*?)</style>", _drawn(spec), re.DOTALL)
    return found.group(1) if found else ""


def diagram(
    spec: Spec[Any], counts: Mapping[str, Count], moves: Mapping[str, tuple[str, str]], links: Mapping[str, str]
) -> Markup:
    """The lifecycle with the number of rows on each status, and on each move its rate and how often it was refused."""
    root = ElementTree.fromstring(_drawn(spec))
    root.attrib.pop("style", None)
    width, height = float(root.get("width", "0")), float(root.get("height", "0")) - _HEADING
    root.attrib |= {"viewBox": f"0 {_HEADING} {width:g} {height:g}", "height": f"{height:g}"}
    for style in root.findall(f"{_SVG}style"):
        root.remove(style)
    for group in root.iter(f"{_SVG}g"):
        status, move = group.get("data-status"), group.get("data-move")
        if status is not None:
            _put_count(group, counts.get(status), links.get(status))
        elif move is not None and move in moves:
            _put_rate(group, *moves[move])
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _put_count(group: ElementTree.Element, count: Count | None, link: str | None) -> None:
    box = group.find(f"{_SVG}rect")
    assert box is not None
    x, y, width = (float(box.get(name, "0")) for name in ("x", "y", "width"))
    if link is not None:
        inner = list(group)
        anchor = ElementTree.SubElement(group, f"{_SVG}a", {"href": link})
        for child in inner:
            group.remove(child)
            anchor.append(child)
        group = anchor
    if count is None or not count.number:
        return
    text = str(count)
    room = 7.0 * len(text) + 10
    ElementTree.SubElement(
        group, f"{_SVG}rect", {
            "class": "count", "x": f"{x + width - room + 8:.1f}", "y": f"{y - 9:.1f}",
            "width": f"{room:.1f}", "height": "17", "rx": "8.5",
        },
    )  # fmt: skip
    label = ElementTree.SubElement(
        group, f"{_SVG}text", {"class": "count-text", "x": f"{x + width - room / 2 + 8:.1f}", "y": f"{y + 3.5:.1f}"}
    )
    label.text = text


def _put_rate(group: ElementTree.Element, rate: str, refused: str) -> None:
    text, behind = group.find(f"{_SVG}text"), group.find(f"{_SVG}rect")
    assert text is not None
    assert behind is not None
    text.set("y", f"{float(text.get('y', '0')) - 3:.1f}")
    x, y, width, height = (float(behind.get(name, "0")) for name in ("x", "y", "width", "height"))
    wider = max(0.0, 5.6 * len(rate + refused) + 6 - width)
    behind.attrib |= {
        "x": f"{x - wider / 2:.1f}",
        "y": f"{y - 3:.1f}",
        "width": f"{width + wider:.1f}",
        "height": f"{height + 7:.1f}",
    }
    below = ElementTree.SubElement(
        group, f"{_SVG}text", {"class": "rate", "x": text.get("x", "0"), "y": f"{float(text.get('y', '0')) + 9:.1f}"}
    )
    for words, kind in ((rate, "made"), (refused, "refused")):
        if words:
            part = ElementTree.SubElement(below, f"{_SVG}tspan", {"class": kind})
            part.text = words + (" " if kind == "made" and refused else "")


def bands(found: Sequence[Band], span: timedelta, now: datetime) -> Markup:
    """One lane for each instance, a band for each epoch: two bands above each other at one time are an overlap."""
    holders = list(dict.fromkeys(band.holder for band in sorted(found, key=lambda band: band.begin)))
    epochs = sorted({band.epoch for band in found})
    height = _LANE * len(holders) + 26
    root = ElementTree.Element(
        f"{_SVG}svg",
        {
            "class": "bands",
            "viewBox": f"0 0 {_WIDTH} {height}",
            "role": "img",
            "width": str(_WIDTH),
            "height": str(height),
        },
    )
    title = ElementTree.SubElement(root, f"{_SVG}title")
    title.text = "Who led when: a lane for each instance, a band for each epoch"
    begin = now - span
    for lane, holder in enumerate(holders):
        y = lane * _LANE
        name = ElementTree.SubElement(root, f"{_SVG}text", {"class": "lane", "x": "0", "y": str(y + 17)})
        name.text = holder if len(holder) <= 24 else holder[:23] + "…"
        ElementTree.SubElement(root, f"{_SVG}path", {"class": "rule", "d": f"M{_LEFT},{y + _LANE - 1} H{_WIDTH}"})
        for band in found:
            if band.holder == holder:
                _put_band(root, band, epochs.index(band.epoch), y, begin, span)
    for part in range(5):
        x = _LEFT + (_WIDTH - _LEFT) * part / 4
        at = now - span * (1 - part / 4)
        place = {0: "start", 4: "end"}.get(part, "middle")
        tick = ElementTree.SubElement(
            root, f"{_SVG}text", {"class": "tick", "x": f"{x:.0f}", "y": str(height - 6), "text-anchor": place}
        )
        tick.text = f"{at.astimezone(UTC):%H:%M:%S}"
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _put_band(root: ElementTree.Element, band: Band, place: int, y: float, begin: datetime, span: timedelta) -> None:
    room = _WIDTH - _LEFT
    left = max(0.0, (band.begin - begin) / span) * room
    right = min(1.0, (band.end - begin) / span) * room
    group = ElementTree.SubElement(root, f"{_SVG}g", {"class": f"band band-{place % 6}"})
    title = ElementTree.SubElement(group, f"{_SVG}title")
    title.text = f"{band.holder}, epoch {band.epoch}: {band.begin:%H:%M:%S} to {band.end:%H:%M:%S} UTC"
    ElementTree.SubElement(
        group, f"{_SVG}rect", {
            "x": f"{_LEFT + left:.1f}", "y": f"{y + 4:.1f}",
            "width": f"{max(right - left, 3):.1f}", "height": "17", "rx": "3",
        },
    )  # fmt: skip
