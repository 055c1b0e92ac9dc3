// Filters the operations by what is typed. The page is complete without it.
const field = document.getElementById("search");
const nothing = document.getElementById("nothing");
const operations = [...document.querySelectorAll("article.operation")].map((article) => ({
  article,
  link: document.querySelector(`[data-for="${article.id}"]`),
  text: `${article.id} ${article.querySelector(".told").textContent}`.toLowerCase(),
}));
const chapters = [...document.querySelectorAll("section.chapter")];
const intro = document.querySelector(".intro");

function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const isSearching = words.length > 0;
  let found = 0;
  for (const { article, link, text } of operations) {
    const fits = words.every((word) => text.includes(word));
    article.hidden = !fits;
    if (link) link.hidden = !fits;
    found += fits ? 1 : 0;
  }
  for (const chapter of chapters) {
    const isSchemas = chapter.id === "schemas";
    const hasAny = isSchemas ? !isSearching : chapter.querySelector("article:not([hidden])") !== null;
    chapter.hidden = !hasAny;
    const link = document.querySelector(`nav a[href="#${chapter.id}"]`);
    if (link) link.parentElement.hidden = !hasAny;
  }
  intro.hidden = isSearching;
  nothing.hidden = found > 0;
}

field.closest("label").hidden = false;
field.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
  if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    filter();
    field.blur();
  }
});
// Following a link shows its target, whatever was searched for.
window.addEventListener("hashchange", () => {
  if (document.querySelector(`${CSS.escape ? "#" + CSS.escape(location.hash.slice(1)) : location.hash}[hidden]`)) {
    field.value = "";
    filter();
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
});
