"""The terminal application: six pages, keys to switch between them, and a refresh every few seconds."""

from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.widgets import DataTable, Footer, Header, Static, TabbedContent, TabPane

from raceproof.ops.top import tables
from raceproof.ops.top.watch import Look, Watch

PAGES = {
    "lifecycles": "Lifecycles",
    "claims": "Claims",
    "races": "Races",
    "leaders": "Leader",
    "inboxes": "Inbox",
    "stuck": "Stuck",
}
_INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Top(App[None]):
    """`raceproof top`."""

    TITLE = "raceproof top"
    CSS = """
    Screen { overflow: hidden; }
    TabbedContent { height: 1fr; }
    ContentSwitcher { height: 1fr; }
    TabPane { height: 1fr; padding: 0; }
    DataTable { height: 1fr; }
    .empty { padding: 1 2; color: $text-muted; display: none; }
    #status { height: 1; padding: 0 1; background: $panel; }
    #repair { height: auto; max-height: 8; padding: 0 1; border-top: solid $primary; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(place), f"show({name!r})", PAGES[name]) for place, name in enumerate(PAGES, 1)),
        Binding("r", "refresh", "Refresh"),
        Binding("p", "pause", "Pause"),
        Binding("plus,equals_sign", "interval(1)", "Slower", show=False),
        Binding("minus", "interval(-1)", "Faster", show=False),
        Binding("q", "quit", "Quit"),
    ]
    paused: reactive[bool] = reactive(False)

    def __init__(self, watch: Watch, where: str, every: float = 2.0) -> None:
        super().__init__()
        self._watch = watch
        self._every = every
        self.sub_title = tables.plain(where, longest=100).plain
        self.look: Look | None = None
        self.looks = 0
        self._repairs: tuple[str, ...] = ()
        self._looking = False

    def compose(self) -> ComposeResult:
        yield Header(icon="")
        with TabbedContent(initial="lifecycles"):
            for name, title in PAGES.items():
                with TabPane(title, id=name):
                    yield DataTable(id=f"table-{name}", cursor_type="row", zebra_stripes=True)
                    yield Static("", id=f"empty-{name}", classes="empty", markup=False)
        yield Static("", id="repair", markup=False)
        yield Static("reading …", id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self._timer = self.set_interval(self._every, self._tick)
        self.refresh_look()
        self.action_show("lifecycles")

    async def on_unmount(self) -> None:
        await self._watch.close()

    def _tick(self) -> None:
        if not self.paused:
            self.refresh_look()

    @work(exclusive=False)
    async def refresh_look(self) -> None:
        """Read the store, unless a read is in progress; report errors, and retry at the next tick."""
        if self._looking:
            return
        self._looking = True
        try:
            look = await self._watch.look()
        except Exception as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._say(f"the store does not answer: {tables.plain(said, longest=200).plain}")
            return
        finally:
            self._looking = False
        self._show(look)

    def _show(self, look: Look) -> None:
        before, self.look = self.look, look
        self.looks += 1
        self._fill("lifecycles", tables.lifecycles(look, before))
        self._fill("claims", tables.claims(look))
        self._fill("races", tables.races(look))
        self._fill("leaders", tables.leaders(look))
        self._fill("inboxes", tables.inboxes(look))
        stuck = tables.stuck(look)
        self._fill("stuck", stuck)
        self._repairs = stuck.repairs
        self._show_repair()
        notes = f" · skipped: {'; '.join(look.snapshot.notes)}" if look.snapshot.notes else ""
        state = "paused" if self.paused else f"every {self._every:g} s"
        self._say(
            f"{look.snapshot.at:%H:%M:%S} UTC · {tables.summary(look)} · {look.took * 1000:.0f} ms, {state}{notes}"
        )

    def _fill(self, name: str, page: tables.Page) -> None:
        """Put a page into its table; the cursor and the scroll position stay."""
        table: DataTable[Any] = self.query_one(f"#table-{name}", DataTable)
        empty = self.query_one(f"#empty-{name}", Static)
        empty.update(page.empty)
        empty.display = not page.rows
        table.display = bool(page.rows)
        place, scrolled = table.cursor_row, table.scroll_offset
        table.clear(columns=True)
        table.add_columns(*page.columns)
        for row in page.rows:
            table.add_row(*row)
        if page.rows:
            table.move_cursor(row=min(place, len(page.rows) - 1), scroll=False)
            table.scroll_to(scrolled.x, scrolled.y, animate=False)

    def _say(self, text: str) -> None:
        self.query_one("#status", Static).update(text)

    def _show_repair(self) -> None:
        panel = self.query_one("#repair", Static)
        table: DataTable[Any] = self.query_one("#table-stuck", DataTable)
        is_stuck = self.query_one(TabbedContent).active == "stuck"
        panel.display = is_stuck and bool(self._repairs)
        if panel.display:
            text = self._repairs[min(table.cursor_row, len(self._repairs) - 1)]
            lines = [tables.plain(line, longest=400).plain for line in text.splitlines()]
            panel.update("repair:\n" + "\n".join(lines))

    def on_data_table_row_highlighted(self, _: DataTable.RowHighlighted) -> None:
        self._show_repair()

    def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        self._show_repair()

    def action_show(self, name: str) -> None:
        """Another page."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#table-{name}", DataTable).focus()
        self._show_repair()

    def action_refresh(self) -> None:
        self.refresh_look()

    def action_pause(self) -> None:
        """Pause or resume."""
        self.paused = not self.paused
        self._say("paused; p resumes, r refreshes once" if self.paused else "resuming …")
        self._tick()

    def action_interval(self, step: int) -> None:
        """Refresh more or less often."""
        nearest = min(range(len(_INTERVALS)), key=lambda place: abs(_INTERVALS[place] - self._every))
        self._every = _INTERVALS[min(max(nearest + step, 0), len(_INTERVALS) - 1)]
        self._timer.stop()
        self._timer = self.set_interval(self._every, self._tick)
        self._say(f"every {self._every:g} s")
