// <hapax-actions type="refund" id="R123" token="hpa_…"></hapax-actions>: the steps that may be taken with an entity now, on a
// page of your own.
//
// The token comes from your server, which asks Hapax for it: POST …/api/v1/entities/TYPE/ID/action-tokens. It counts for this
// entity alone, for minutes. With token-url="/your/path", the element asks that path of your server for {"token": "hpa_…"},
// and again before the token is over. Without either, this file and its requests come through your own server, which adds a
// key of its own. The server decides what may be done; this only shows it.

const base = new URL("../", import.meta.url);
const EVERY_MS = 4000;
// Ask for the next token this long before the last one is over.
const EARLY_MS = 30_000;
const style = new CSSStyleSheet();
style.replaceSync(`
  :host { display: block; font: inherit; }
  ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 12px; }
  li { display: grid; gap: 4px; max-width: 32ch; align-content: start; justify-items: start; }
  button { font: inherit; padding: 6px 14px; border-radius: 6px; border: 1px solid; cursor: pointer; }
  button:disabled { cursor: not-allowed; opacity: .6; border-style: dashed; }
  small { opacity: .8; overflow-wrap: anywhere; }
  p { margin: 0 0 8px; overflow-wrap: anywhere; }
`);

// `randomUUID` exists on HTTPS alone.
const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const make = (name, properties, ...inside) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...inside);
  return element;
};

class HapaxActions extends HTMLElement {
  static observedAttributes = ["type", "id", "token", "token-url", "requester"];
  #shown = null;
  // One key for each button that is shown: however often it is pressed, it is one operation.
  #keys = new Map();
  #taking = new Set();
  #timer = 0;
  #asked = 0;
  #token = null;
  #renewAt = 0;
  #failed = "";

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [style];
  }

  connectedCallback() { this.refresh(); this.#timer = setInterval(() => { if (!document.hidden) this.refresh(); }, EVERY_MS); }
  disconnectedCallback() { clearInterval(this.#timer); }
  attributeChangedCallback(name, before, after) {
    if (before === after) return;
    if (name !== "requester") this.#token = null;
    if (this.isConnected) this.refresh();
  }

  #path(rest = "") {
    return new URL(`api/v1/entities/${encodeURIComponent(this.getAttribute("type"))}/${encodeURIComponent(this.id)}${rest}`, base);
  }

  async #credential() {
    if (this.hasAttribute("token")) return this.getAttribute("token");
    if (!this.hasAttribute("token-url")) return null;
    if (!this.#token || Date.now() > this.#renewAt) {
      const answer = await fetch(this.getAttribute("token-url"), { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(`No token: ${answer.status}`);
      const { token, expiresAt } = await answer.json();
      this.#token = token;
      const left = Date.parse(expiresAt ?? "") - Date.now();
      this.#renewAt = Date.now() + Math.max((Number.isNaN(left) ? 0 : left) - EARLY_MS, 10_000);
    }
    return this.#token;
  }

  /** Asks Hapax; a token that is over is replaced once. */
  async #ask(path, options = {}, again = true) {
    const token = await this.#credential();
    const headers = { accept: "application/json", ...options.headers };
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(path, { ...options, headers, ...(token ? { credentials: "omit" } : {}) });
    if (answer.status === 401 && again && this.hasAttribute("token-url")) {
      this.#token = null;
      return this.#ask(path, options, false);
    }
    return { ok: answer.ok, said: await answer.json() };
  }

  /** Looks how the entity stands now. */
  async refresh() {
    const asked = ++this.#asked;
    const path = this.#path();
    if (this.hasAttribute("requester")) path.searchParams.set("requester", this.getAttribute("requester"));
    try {
      const { ok, said } = await this.#ask(path);
      if (asked !== this.#asked) return;
      if (!ok) return this.#say(said.detail ?? said.title);
      if (this.#shown?.entity.version !== said.entity.version) this.#keys.clear();
      this.#shown = said;
      this.#render();
    } catch { if (asked === this.#asked) this.#say("Hapax cannot be reached."); }
  }

  #render() {
    const { pendingOperation: pending, allowedActions: actions } = this.#shown;
    const items = actions.map((action) => {
      const label = this.getAttribute(`label-${action.stepKey}`) ?? action.stepKey;
      const button = make("button", { type: "button", textContent: label, disabled: !action.enabled || this.#taking.size > 0 });
      button.dataset.step = action.stepKey;
      button.addEventListener("click", () => this.take(action.stepKey));
      if (action.enabled) return make("li", {}, button);
      const why = make("small", { textContent: action.reason ?? "", id: `why-${action.stepKey}` });
      button.setAttribute("aria-describedby", why.id);
      return make("li", {}, button, why);
    });
    const head = [];
    if (this.#failed) head.push(make("p", { textContent: this.#failed, role: "alert" }));
    if (pending) head.push(make("p", { textContent: `${pending.stepKey} is ${pending.status === "IN_DOUBT" ? "in doubt" : "in progress"}: ${pending.id}` }));
    const focused = this.shadowRoot.activeElement?.dataset.step;
    this.shadowRoot.replaceChildren(...head, make("ul", {}, ...items));
    if (focused) this.shadowRoot.querySelector(`button[data-step="${CSS.escape(focused)}"]`)?.focus();
    if (pending) this.dataset.pending = pending.id; else delete this.dataset.pending;
  }

  /** Takes a step with what is shown. A second call before the answer is the same operation, so nothing is sent for it. */
  async take(step, input = {}) {
    if (!this.#shown) return;
    const { version } = this.#shown.entity;
    if (!this.#keys.has(step)) this.#keys.set(step, newKey());
    const key = this.#keys.get(step);
    if (this.#taking.has(key)) return;
    this.#failed = "";
    this.#taking.add(key);
    this.#render();
    const body = { input };
    if (this.hasAttribute("requester")) body.requester = this.getAttribute("requester");
    try {
      const { ok, said } = await this.#ask(this.#path(`/steps/${encodeURIComponent(step)}`), {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": key, "if-match": `"${version}"` },
        body: JSON.stringify(body),
      });
      if (!ok) {
        this.#failed = said.detail ?? said.title;
        // It was answered, so the next press means something new.
        if (!said.retryable) this.#keys.delete(step);
      }
      this.dispatchEvent(new CustomEvent("hapax-action", { bubbles: true, composed: true, detail: { step, ok, answer: said } }));
    } catch {
      // Nobody knows whether it arrived: the next press sends it again, under the same key.
      this.#failed = "Hapax cannot be reached. Press again: it is done once.";
    } finally { this.#taking.delete(key); }
    await this.refresh();
  }

  #say(text) { this.shadowRoot.replaceChildren(make("p", { textContent: text, role: "alert" })); }
}

customElements.define("hapax-actions", HapaxActions);
