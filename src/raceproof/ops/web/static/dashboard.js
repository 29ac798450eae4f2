// Live updates: when the server reports a change, the page is fetched again and its content replaced.
// Everything works without this script; it saves reloading, and adds keyboard shortcuts.
(() => {
  "use strict";
  const sign = document.getElementById("live");
  const word = sign && sign.querySelector("span");
  let paused = false, busy = false, again = false, source = null;

  const tell = (state, text) => { sign.className = "live " + state; if (word) word.textContent = text; };
  const main = () => document.getElementById("main");

  // The visitor is typing, has opened a form or has selected text: leave the page alone.
  const inUse = () => {
    const at = document.activeElement;
    const writes = at && main().contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
    const filled = [...main().querySelectorAll("input:not([type=hidden]), textarea")].some((one) => one.value !== one.defaultValue);
    return writes || filled || String(getSelection()).length > 0 || main().querySelector("details.act-in[open]");
  };

  const replace = (next) => {
    const open = new Set([...main().querySelectorAll("details[id][open]")].map((one) => one.id));
    const known = new Set([...main().querySelectorAll("table.rows tbody tr, .timeline li")].map((one) => one.textContent.replace(/[\d.]+ (ms|s|min|h|d) (ago|before)|\s+/g, " ")));
    const place = [...main().querySelectorAll("a, summary, button")].indexOf(document.activeElement);
    main().replaceChildren(...next.childNodes);
    for (const one of main().querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
    if (known.size) for (const one of main().querySelectorAll("table.rows tbody tr, .timeline li"))
      if (!known.has(one.textContent.replace(/[\d.]+ (ms|s|min|h|d) (ago|before)|\s+/g, " "))) one.classList.add("fresh");
    if (place >= 0) { const found = main().querySelectorAll("a, summary, button")[place]; if (found) found.focus({ preventScroll: true }); }
  };

  const refresh = async () => {
    if (paused || document.hidden || inUse()) return;
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Raceproof-Live": "1" }, redirect: "error" });
      if (answer.ok && !inUse()) {
        const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
        if (next) replace(next);
      }
    } catch { /* the next word will try again */ }
    busy = false;
    if (again) { again = false; setTimeout(refresh, 500); }
  };

  const follow = () => {
    source = new EventSource(document.body.dataset.live);
    source.addEventListener("open", () => {
      tell(paused ? "paused" : "on", paused ? "paused" : "live");
      refresh(); // no event tells what has changed since this page was rendered, or while the connection was down
    });
    source.addEventListener("error", () => tell("", "not live"));
    source.addEventListener("changed", refresh);
    source.addEventListener("tick", refresh);
  };
  if (sign && document.body.dataset.live) {
    follow();
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  }

  for (const one of document.querySelectorAll("#bulk-of, #bulk-move")) one.addEventListener("change", () => {
    if (one.id === "bulk-of") document.getElementById("bulk-move").value = "";
    one.form.requestSubmit();
  });

  const rows = () => [...main().querySelectorAll("table.rows tbody tr a, .timeline a")].filter((one) => one.offsetParent);
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((one) => one === document.activeElement);
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };

  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
      if (event.key === "Escape" && event.target.id === "find") event.target.blur();
      return;
    }
    const help = document.getElementById("help");
    if (going && Date.now() - going < 1500) {
      going = 0;
      const found = document.querySelector(`nav a[data-go="${CSS.escape(event.key)}"]`);
      if (found) { event.preventDefault(); found.click(); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); document.getElementById("find").focus(); }
    else if (event.key === "g") going = Date.now();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?" && help && !help.open) help.showModal();
    else if (event.key === ".") { paused = !paused; tell(paused ? "paused" : "on", paused ? "paused" : "live"); if (!paused) refresh(); }
  });
})();
