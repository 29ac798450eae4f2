// Follows one login: shows its code, counts down, asks for the password, and offers a new try when it has ended.
"use strict";
const byId = (id) => document.getElementById(id);
const ORDER = ["pending", "qr_rendered", "scanned", "authorized", "session_saved", "done"];
const WORDS = {
  pending: ["Preparing a code…", "One moment."],
  qr_rendered: ["Scan this code", "Open Telegram on your phone: Settings → Devices → Link Desktop Device."],
  scanned: ["Scanned", "Confirming with Telegram…"],
  authorized: ["Confirmed", "Saving the session…"],
  session_saved: ["Confirmed", "Almost done…"],
  done: ["You are logged in", "You can close this page."],
  expired: ["The code has expired", "Nobody scanned it in time."],
  superseded: ["Continued elsewhere", "A newer login was started, perhaps in another tab."],
  failed: ["That did not work", "The login has ended."],
  gone: ["This login is forgotten", "It was too long ago."],
};
const REASONS = {
  cancelled: "You cancelled it.", password_wrong: "The password was wrong too often.", password_timeout: "No password was given in time.",
  ingest_restarted: "The service was restarted in the middle of it.", flood_wait: "Telegram asks to wait for a while.", telegram_refused: "Telegram did not take it.",
  too_late: "It took too long.", session_lost: "The session could not be saved.", database_save_failed: "The session could not be saved.", not_active: "A newer login was started.",
  other_account: "That phone belongs to another Telegram account. Scan with the account that started this login.",
};
const MARKS = { done: ["✓", "good"], expired: ["⏱", "warn"], superseded: ["⇄", "warn"], failed: ["✕", "bad"], gone: ["?", "warn"] };
let codeEnds = 0, shownVersion = null;

function show(login) {
  const [title, lead] = login.password ? ["Password needed", "This account has two-step verification."] : WORDS[login.status];
  byId("login").dataset.status = login.status;
  byId("title").textContent = title;
  byId("lead").textContent = (login.status === "failed" && REASONS[login.reason]) || lead;
  byId("code").hidden = !login.code;
  if (login.code && login.code.version !== shownVersion) {
    shownVersion = login.code.version;
    const [source] = byId("picture").getElementsByTagName("source");
    const [image] = byId("picture").getElementsByTagName("img");
    source.srcset = `code.svg?theme=dark&version=${shownVersion}`;
    image.src = `code.svg?theme=light&version=${shownVersion}`;
    codeEnds = Date.now() + login.code.seconds_left * 1000;
  }
  const form = byId("password");
  if (form.hidden && login.password) setTimeout(() => form.password.focus(), 0);
  form.hidden = !login.password;
  if (login.password) {
    byId("wrong").hidden = !login.password.wrong;
    byId("wrong").textContent = `That was wrong. ${login.password.tries_left} ${login.password.tries_left === 1 ? "try" : "tries"} left.`;
    form.querySelector("button").disabled = false;
  }
  const mark = MARKS[login.status];
  byId("mark").hidden = !mark;
  if (mark) { byId("mark").textContent = mark[0]; byId("mark").className = `mark ${mark[1]}`; }
  const at = ORDER.indexOf(login.status);
  for (const step of byId("steps").children) if (at >= ORDER.indexOf(step.dataset.step)) step.classList.add("reached");
  byId("cancel").hidden = login.ended;
  byId("again").hidden = !login.ended || login.status === "done";
  if (byId("phone")) byId("phone").hidden = !login.code;
}

function count() {
  const left = Math.max(0, Math.round((codeEnds - Date.now()) / 1000));
  byId("countdown").textContent = left ? `Good for ${left} s, then the next one follows` : "The next one is on its way…";
}
setInterval(count, 500);

async function post(path, body) {
  byId("problem").hidden = true;
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body || {}) });
    const told = await answer.json().catch(() => ({}));
    if (answer.ok) return told;
    throw new Error(told.detail || told.error || "That did not work. Try again in a moment.");
  } catch (error) {
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
    return null;
  }
}

byId("cancel").addEventListener("click", () => post("cancel"));
byId("again").addEventListener("click", async () => {
  const told = await post("again");
  if (told) location.replace(`../../${told.page}`);
});
byId("password").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  form.querySelector("button").disabled = true;
  const told = await post("password", { password: form.password.value });
  form.password.value = "";
  if (!told) form.querySelector("button").disabled = false;
});
for (const button of document.querySelectorAll("[data-account]")) button.addEventListener("click", async () => {
  const told = await post("simulated-scan", { account: button.dataset.account });
  byId("phone-said").textContent = told ? `Scanned as account ${told.account_id}.` : "";
});

// Live events where they come through; a plain look every few seconds where a proxy holds them back or answers an error.
const LOOK = 2000, QUIET = 40000, REOPEN = 10000;
let source = null, heard = 0, opened = 0, ended = false;

function update(login) {
  show(login);
  count();
  ended = login.ended;
  byId("offline").hidden = true;
  if (ended) source.close();
}

function listen() {
  if (source) source.close();
  opened = Date.now();
  source = new EventSource("events");
  source.onmessage = (event) => { heard = Date.now(); update(JSON.parse(event.data)); };
}

async function look() {
  if (ended || (source.readyState === EventSource.OPEN && Date.now() - heard < QUIET)) return;
  if (source.readyState === EventSource.CLOSED && Date.now() - opened > REOPEN) listen();
  try {
    const answer = await fetch(location.pathname.replace(/\/page$/, ""), { cache: "no-store" });
    if (answer.ok) update(await answer.json());
    else if (answer.status === 404 || answer.status === 401) update({ status: "gone", ended: true });
    else throw new Error(`${answer.status}`);
  } catch { byId("offline").hidden = false; }
}
listen();
setInterval(look, LOOK);
