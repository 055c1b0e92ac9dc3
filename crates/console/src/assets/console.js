// Adds to pages that work without it: the viewer's time zone, keys, forms that cannot be sent twice, live fragments.

const zone = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const withYear = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

// Instants in the viewer's zone; UTC stays in the title.
function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]:not([data-relative])")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const isThisYear = at.getFullYear() === new Date().getFullYear();
    element.textContent = (isThisYear ? zone : withYear).format(at);
  }
}

// A second click is harmless, since the form carries a key; this only says that the first was seen.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "yes";
  for (const button of form.querySelectorAll("button[type=submit]")) button.setAttribute("aria-busy", "true");
});
// Whoever comes back to a page from the next one may send its forms anew.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  }
});
document.querySelector("form[data-submit-at-once]")?.requestSubmit();

// Keys: / searches, g and a letter go to a page, ? tells the keys.
let isGoing = false;
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    document.querySelectorAll("details.disclosed[open], details.who[open]").forEach((it) => it.removeAttribute("open"));
    if (isTyping) event.target.blur();
    return;
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); document.querySelector(".search input")?.focus(); return; }
  if (event.key === "?") { document.querySelector("details.who > summary")?.click(); return; }
  if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); return; }
  if (isGoing) {
    const link = [...document.querySelectorAll(".side a")].find((it) => it.textContent.trim().toLowerCase().startsWith(event.key));
    isGoing = false;
    if (link) link.click();
  }
});
// What was searched for before is replaced, not added to.
document.querySelector(".search input")?.addEventListener("focus", (event) => event.target.select());
// A click beside an open menu closes it.
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.who[open]")) if (!menu.contains(event.target)) menu.removeAttribute("open");
});

localise(document);
// On a phone the tabs scroll: the one of this page is brought to sight.
for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  const tabs = here.parentElement;
  if (here.offsetLeft + here.offsetWidth > tabs.clientWidth + tabs.offsetLeft) tabs.scrollLeft = here.offsetLeft - tabs.offsetLeft - 24;
}

// Live pages: the page is asked for anew and its fragments take the place of those shown, unless somebody works in them.
const main = document.querySelector("main");
let isAsking = false;
async function renew() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    localise(fresh);
    for (const part of document.querySelectorAll("[data-fragment]")) {
      const next = fresh.getElementById(part.id);
      if (!next || part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) continue;
      if (part.querySelector("details.disclosed[open], details.more[open], form[data-sent]")) continue;
      for (const open of part.querySelectorAll("details[id][open]")) next.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
      // Keys of forms are new each time; that alone is no change.
      const plain = (it) => it.innerHTML.replace(/console-[0-9a-f-]{36}/g, "");
      if (plain(part) !== plain(next)) part.replaceWith(document.adoptNode(next));
    }
    const live = fresh.querySelector("main")?.dataset.live;
    if (live) main.dataset.live = live; else { delete main.dataset.live; source?.close(); source = null; }
  } catch { /* The next message, or the next look, tries again. */ } finally { isAsking = false; }
}
let source = null;
function follow() {
  source?.close();
  source = null;
  if (document.hidden || !main?.dataset.live) return;
  source = new EventSource(main.dataset.live);
  source.addEventListener("moved", renew);
  // A server that has enough streams refuses this one for good: then the page looks again by the clock.
  source.addEventListener("error", () => { if (source?.readyState === EventSource.CLOSED) lookAgain(); });
}
if (main?.dataset.live) {
  follow();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) renew(); follow(); });
}
let isLooking = false;
function lookAgain() {
  if (isLooking) return;
  isLooking = true;
  setInterval(renew, 4000);
}
if (main && "refresh" in main.dataset) lookAgain();
