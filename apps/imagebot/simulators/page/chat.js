// A chat with the bot: everything is fetched from the simulator, and put in as text.
"use strict";
const chat = document.getElementById("chat"), people = document.getElementById("people"), state = document.getElementById("state");
let user = Number(location.hash.slice(1)) || 0, shown = "";

const post = (path, body) => fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
const element = (name, text, kind) => { const made = document.createElement(name); if (text) made.textContent = text; if (kind) made.className = kind; return made; };

async function showPeople() {
  const all = await (await fetch("control/chats")).json();
  if (!user && all.length) user = all[0].user_id;
  people.replaceChildren(...all.slice(0, 6).map(one => {
    const button = element("button", one.name);
    button.setAttribute("aria-pressed", String(one.user_id === user));
    button.onclick = () => { user = one.user_id; location.hash = user; shown = ""; showPeople(); refresh(); };
    return button;
  }));
}

function bubble(message) {
  const made = element("div", "", message.from.is_bot ? "message" : "message mine");
  if (message.photo) { const picture = element("img"); picture.src = message.photo[0].file_id; picture.alt = message.caption || "picture"; made.append(picture); }
  made.append(element("span", message.text || message.caption || ""));
  for (const row of (message.reply_markup || {}).inline_keyboard || []) {
    const buttons = element("div", "", "row");
    for (const one of row) {
      const button = element("button", one.text);
      button.onclick = () => post(`control/press/${user}`, { message_id: message.message_id, data: one.callback_data }).then(refresh);
      buttons.append(button);
    }
    made.append(buttons);
  }
  return made;
}

async function refresh() {
  if (!user) return;
  try {
    const told = await (await fetch(`control/chat/${user}`)).json();
    const now = JSON.stringify(told.messages);
    state.textContent = "simulated Telegram";
    if (now === shown) return;
    shown = now;
    chat.replaceChildren(...(told.messages.length ? told.messages.map(bubble) : [element("p", "Say /start, or describe a picture: /image a lighthouse at night", "empty")]));
    chat.scrollTop = chat.scrollHeight;
  } catch { state.textContent = "not connected, trying again"; }
}

document.getElementById("form").onsubmit = event => {
  event.preventDefault();
  const input = document.getElementById("text");
  if (input.value.trim()) post(`control/say/${user}`, { text: input.value }).then(refresh);
  input.value = "";
};
showPeople().then(refresh);
setInterval(refresh, 700);
