// Copies commands, moves to the search by "/", shows hits as one types, and loads parts that take
// time. Pages work without it.
"use strict";

const enableCopies = (part) => {
  for (const button of part.querySelectorAll("button.copy")) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      const label = button.firstChild;
      label.nodeValue = "Copied";
      setTimeout(() => { label.nodeValue = "Copy"; }, 1500);
    });
  }
};
enableCopies(document);

// Where a row of places or views is wider than the window, the present one is in sight.
for (const here of document.querySelectorAll(".places [aria-current], .tabs [aria-current]")) {
  const row = here.parentElement;
  row.scrollLeft = here.offsetLeft - row.offsetLeft - 32;
}

const search = document.querySelector("input[type=search]");

// Once the browser focuses the search, typing goes on behind its text, not before.
if (search) search.setSelectionRange(search.value.length, search.value.length);

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key === "/" && search && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

// The browser parses the answer as a document whose scripts never run; its nodes replace ours.
const hits = document.getElementById("hits");
if (search && hits) {
  let waiting, running;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const address = new URL(search.form.action);
      address.search = new URLSearchParams(new FormData(search.form));
      if (running) running.abort();
      running = new XMLHttpRequest();
      running.responseType = "document";
      running.open("GET", address);
      running.addEventListener("load", () => {
        const found = running.response && running.response.getElementById("hits");
        if (!found) return;
        hits.replaceChildren(...found.childNodes);
        history.replaceState(null, "", address);
      });
      running.send();
    }, 120);
  });
}

for (const part of document.querySelectorAll("[data-load]")) {
  const loading = new XMLHttpRequest();
  loading.responseType = "document";
  loading.open("GET", part.dataset.load);
  loading.addEventListener("load", () => {
    const found = loading.response && loading.response.getElementById(part.id);
    if (!found) return;
    part.replaceChildren(...found.childNodes);
    enableCopies(part);
  });
  loading.send();
}
