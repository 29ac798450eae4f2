// Parts of a page that say where they come from are fetched again when something has changed.
"use strict";
const parts = document.querySelectorAll("[data-live]");
const changes = document.body.dataset.changes;
if (parts.length && changes && window.EventSource) {
  let wanted = false, busy = false;
  const refresh = async () => {
    if (busy) { wanted = true; return; }
    busy = true;
    for (const part of parts) {
      try {
        const answer = await fetch(part.dataset.live, { headers: { accept: "text/html" } });
        if (answer.ok) part.innerHTML = await answer.text();
      } catch { /* the stream reconnects, and then it is fetched */ }
    }
    setTimeout(() => { busy = false; if (wanted) { wanted = false; refresh(); } }, 400);
  };
  const source = new EventSource(changes);
  source.onmessage = refresh;
  const state = document.getElementById("connection");
  if (state) {
    source.onopen = () => { state.textContent = "live"; };
    source.onerror = () => { state.textContent = "not connected, trying again"; };
  }
}
