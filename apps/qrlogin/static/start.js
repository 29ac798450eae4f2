// Starts a login: by the form, by the data of a Mini App, or with a token that a bot has put into the link.
"use strict";
const problem = document.getElementById("problem");
const say = (text) => { problem.textContent = text; problem.hidden = !text; };

async function post(path, headers, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.detail || told.error || "That did not work. Try again in a moment.");
  location.replace(told.page);
}

const parts = new URLSearchParams(location.hash.slice(1));
if (parts.has("login")) {
  const [id, token] = parts.get("login").split("/");
  history.replaceState(null, "", location.pathname);
  post(`logins/${encodeURIComponent(id)}/enter`, { authorization: `Bearer ${token}` }, {}).catch((error) => say(error.message));
} else if (parts.has("tgWebAppData")) {
  post("logins", { "x-telegram-init-data": parts.get("tgWebAppData") }, {}).catch((error) => say(error.message));
}
const form = document.getElementById("start");
if (form) form.addEventListener("submit", async (event) => {
  event.preventDefault();
  say("");
  try { await post("logins", {}, { user_id: form.user_id.value.trim() }); } catch (error) { say(error.message); }
});
