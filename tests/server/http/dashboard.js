// Runs the dashboard's script, as a server serves it, in place of a browser: with the elements that
// it uses, and requests to that server. Prints what it has shown until a refresh is complete.
//
//   node dashboard.js http://127.0.0.1:PORT TEXT
"use strict";
const vm = require("node:vm");
const [base, words] = process.argv.slice(2);
const shown = { status: [], tables: [] };

function element() {
  const created = {
    children: [], dataset: {}, style: {}, value: "", hidden: false, text: "",
    get textContent() { return this.text; },
    set textContent(text) { this.text = String(text); this.onText?.(); },
    append(...more) { this.children.push(...more); },
    replaceChildren(...all) { this.children = all; this.onChildren?.(); },
    focus() {},
  };
  return created;
}
const texts = (one) => [one.text, ...one.children.flatMap(texts)].filter((text) => text);

const elements = {};
const byId = (id) => (elements[id] ??= element());
byId("q").value = words;
byId("tasks").onChildren = () => shown.tables.push(byId("tasks").children.map((row) => texts(row).join(" | ")));
byId("status").onText = () => {
  const text = byId("status").text;
  shown.status.push(text);
  if (text.startsWith("as of ")) {
    console.log(JSON.stringify(shown));
    process.exit(0);
  }
};
const storage = new Map();

fetch(base + "/").then((page) => page.text()).then((page) => {
  const script = page.slice(page.indexOf("<script>") + 8, page.indexOf("</script>"));
  vm.runInNewContext(script, {
    document: { getElementById: byId, createElement: element, hidden: false, activeElement: null },
    sessionStorage: { getItem: (name) => storage.get(name) ?? null, setItem: (name, value) => storage.set(name, value) },
    fetch: (path, options) => fetch(base + path, options),
    URLSearchParams, Promise, Date, setTimeout, Object, Math, Error,
  });
});
