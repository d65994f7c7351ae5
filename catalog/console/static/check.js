// Checks a message once it is pasted or dropped. The page works without the script, by its button.
"use strict";

const form = document.getElementById("check");
const text = document.getElementById("message");
form.querySelector(".drop").hidden = false;

function send() {
  if (text.value.trim()) form.requestSubmit();
}

text.addEventListener("paste", () => setTimeout(send));
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
});
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    text.classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) text.classList.remove("over");
});
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  text.classList.remove("over");
  const [file] = event.dataTransfer.files;
  if (file && file.size > Number(form.dataset.largest)) {
    text.setCustomValidity("The file is too large for this page: use the command below.");
    text.reportValidity();
    return;
  }
  text.setCustomValidity("");
  text.value = file ? await file.text() : event.dataTransfer.getData("text");
  send();
});
text.addEventListener("input", () => text.setCustomValidity(""));
