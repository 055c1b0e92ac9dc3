// <hapax-actions type="refund" id="R123"></hapax-actions>: the steps that may be taken with an entity now, on a page of your own.
//
// Load this file through your own server, which passes the requests below on to Hapax with a key of its own:
//   GET  …/console/hapax-actions.js
//   GET  …/api/v1/entities/TYPE/ID
//   POST …/api/v1/entities/TYPE/ID/steps/STEP
// The role of that key decides which buttons there are, and the server refuses all others.

const base = new URL("../", import.meta.url);
const style = new CSSStyleSheet();
style.replaceSync(`
  :host { display: block; font: inherit; }
  ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 12px; }
  li { display: grid; gap: 4px; max-width: 32ch; align-content: start; justify-items: start; }
  button { font: inherit; padding: 6px 14px; border-radius: 6px; border: 1px solid; cursor: pointer; }
  button:disabled { cursor: not-allowed; opacity: .6; border-style: dashed; }
  small { opacity: .8; overflow-wrap: anywhere; }
  p { margin: 0 0 8px; }
`);

class HapaxActions extends HTMLElement {
  static observedAttributes = ["type", "id", "requester"];
  #shown = null;
  // One key for each button that is shown: however often it is pressed, it is one operation.
  #keys = new Map();
  #timer = 0;
  #asked = 0;

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [style];
  }

  connectedCallback() { this.refresh(); this.#timer = setInterval(() => { if (!document.hidden) this.refresh(); }, 4000); }
  disconnectedCallback() { clearInterval(this.#timer); }
  attributeChangedCallback() { if (this.isConnected) this.refresh(); }

  #path(rest = "") {
    return new URL(`api/v1/entities/${encodeURIComponent(this.getAttribute("type"))}/${encodeURIComponent(this.id)}${rest}`, base);
  }

  /** Looks how the entity stands now. */
  async refresh() {
    const asked = ++this.#asked;
    const path = this.#path();
    if (this.hasAttribute("requester")) path.searchParams.set("requester", this.getAttribute("requester"));
    try {
      const answer = await fetch(path, { headers: { accept: "application/json" } });
      const said = await answer.json();
      if (asked !== this.#asked) return;
      if (!answer.ok) return this.#say(said.detail ?? answer.statusText);
      const before = this.#shown;
      this.#shown = said;
      if (before?.entity.version !== said.entity.version) this.#keys.clear();
      this.#render();
    } catch { this.#say("Hapax cannot be reached."); }
  }

  #render() {
    const { pendingOperation: pending, allowedActions: actions } = this.#shown;
    const list = document.createElement("ul");
    for (const action of actions) {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = this.getAttribute(`label-${action.stepKey}`) ?? action.stepKey;
      button.disabled = !action.enabled;
      button.dataset.step = action.stepKey;
      button.addEventListener("click", () => this.take(action.stepKey));
      item.append(button);
      if (!action.enabled) item.append(Object.assign(document.createElement("small"), { textContent: action.reason ?? "" }));
      list.append(item);
    }
    const head = pending ? [Object.assign(document.createElement("p"), { textContent: `${pending.stepKey} is ${pending.status === "IN_DOUBT" ? "in doubt" : "in progress"}: ${pending.id}` })] : [];
    this.shadowRoot.replaceChildren(...head, list);
    if (pending) this.dataset.pending = pending.id; else delete this.dataset.pending;
  }

  /** Takes a step with what is shown. A second call before the answer is the same operation. */
  async take(step, input = {}) {
    const { version } = this.#shown.entity;
    if (!this.#keys.has(step)) this.#keys.set(step, crypto.randomUUID());
    const key = this.#keys.get(step);
    for (const button of this.shadowRoot.querySelectorAll("button")) button.disabled = true;
    const body = { input };
    if (this.hasAttribute("requester")) body.requester = this.getAttribute("requester");
    try {
      const answer = await fetch(this.#path(`/steps/${encodeURIComponent(step)}`), {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json", "idempotency-key": key, "if-match": `"${version}"` },
        body: JSON.stringify(body),
      });
      const said = await answer.json();
      this.dispatchEvent(new CustomEvent("hapax-action", { bubbles: true, composed: true, detail: { step, ok: answer.ok, answer: said } }));
      await this.refresh();
      if (!answer.ok) this.#say(said.detail ?? answer.statusText, false);
    } catch {
      // Nobody knows whether it arrived: the next press sends it again, under the same key.
      this.#say("Hapax cannot be reached. Press again: it is done once.");
      this.#render();
    }
  }

  #say(text, alone = true) {
    const said = Object.assign(document.createElement("p"), { textContent: text });
    said.setAttribute("role", "alert");
    if (alone) this.shadowRoot.replaceChildren(said); else this.shadowRoot.prepend(said);
  }
}

customElements.define("hapax-actions", HapaxActions);
