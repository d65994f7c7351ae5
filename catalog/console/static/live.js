// Shows events as they happen. A hidden or paused page has no stream, and goes on where it stood.
"use strict";

const live = document.getElementById("live");
const list = live.querySelector("ol");
const says = live.querySelector(".says");
const dot = live.querySelector(".dot");
const pause = live.querySelector(".pause");
const clear = live.querySelector(".clear");
const MOST = 200;
let source, retry, last = "", count = 0, paused = false;

function tell(text, state) {
  says.textContent = text;
  dot.className = `dot ${state}`;
}

function tellCount() {
  const number = count === 1 ? "1 event" : `${count.toLocaleString("en")} events`;
  tell(paused ? `Paused after ${number}` : `Live, ${number}`, paused ? "" : "ok");
}

function part(tag, name, text) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

function row(event) {
  const action = String(event.type || "").split(".").pop().slice(0, 40);
  const subject = String(event.subject || "").slice(0, 300);
  const item = part("li", "change", "");
  const what = part("div", "what", "");
  const known = ["created", "updated", "deleted"].includes(action);
  const path = part(action === "deleted" || subject === "/" ? "span" : "a", "path", "");
  if (path.tagName === "A") path.href = `/console/e${subject.split("/").map(encodeURIComponent).join("/")}`;
  path.append(part("bdi", "", subject === "/" ? "the registry" : subject));
  what.append(part("span", known ? `tag ${action}` : "tag", action), path);
  const names = event.data && Array.isArray(event.data.changed) ? event.data.changed : [];
  const changed = names.filter((name) => name !== "epoch" && name !== "modifiedat").join(", ");
  if (changed) what.append(part("span", "muted small", changed.slice(0, 200)));
  const time = part("time", "muted", new Date(event.time).toLocaleTimeString());
  time.title = String(event.time);
  item.append(what, time);
  return item;
}

function show(message) {
  last = message.lastEventId || last;
  let event;
  try { event = JSON.parse(message.data); } catch { return; }
  count += 1;
  list.prepend(row(event));
  while (list.childElementCount > MOST) list.lastElementChild.remove();
  list.hidden = false;
  clear.hidden = false;
  live.querySelector(".nothing").hidden = true;
  tellCount();
}

function close() {
  clearTimeout(retry);
  if (source) source.close();
  source = undefined;
}

function open() {
  close();
  if (paused || document.hidden) return;
  const address = new URL(live.dataset.stream, location);
  if (last) address.searchParams.set("from", last);
  source = new EventSource(address);
  source.onopen = tellCount;
  source.onmessage = show;
  source.addEventListener("end", (ended) => tell(`Ended: ${ended.data}. Connecting again …`, "warning"));
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return;
    // The node refuses the stream: perhaps it no longer has what came after the last event.
    tell("The node does not stream events now. Trying again …", "fault");
    last = "";
    retry = setTimeout(open, 5000);
  };
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Go on" : "Pause";
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) { close(); tellCount(); } else open();
});
clear.addEventListener("click", () => {
  list.replaceChildren();
  list.hidden = clear.hidden = true;
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) close(); else open();
});
addEventListener("pagehide", close);
addEventListener("pageshow", (shown) => { if (shown.persisted) open(); });
open();
