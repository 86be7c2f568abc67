"use strict";
(() => {
  const root = document.documentElement;

  // A norm that is pointed at, focused or chosen is highlighted everywhere.
  const marked = [...document.querySelectorAll("[data-norm]")];
  let kept = "";
  const show = (norms) => {
    root.classList.toggle("chosen", norms !== "");
    const chosen = norms.split(" ");
    for (const each of marked)
      each.classList.toggle("on", norms !== "" && each.dataset.norm.split(" ").some((norm) => chosen.includes(norm)));
  };
  const keep = (norm) => {
    kept = norm;
    for (const button of document.querySelectorAll(".norms button"))
      button.setAttribute("aria-pressed", String(norm.split(" ").includes(button.dataset.norm)));
    show(norm);
  };
  const normOf = (event) => event.target.closest?.("[data-norm]")?.dataset.norm ?? "";
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") show(normOf(event) || kept);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible")) show(normOf(event) || kept);
  });
  document.addEventListener("focusout", () => show(kept));
  document.addEventListener("click", (event) => {
    if (event.target.closest("button:not([data-norm]), a, summary")) return;
    const norm = normOf(event);
    keep(norm === kept ? "" : norm);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep("");
    if (event.key !== "Enter" && event.key !== " ") return;
    if (!event.target.matches(".mark")) return;
    event.preventDefault();
    keep(event.target.dataset.norm === kept ? "" : event.target.dataset.norm);
  });

  // Light or dark, against what the system says, and remembered where that is possible.
  const scheme = document.querySelector(".scheme");
  const remember = (value) => {
    try {
      if (value) localStorage.setItem("tasknorm-scheme", value);
      return localStorage.getItem("tasknorm-scheme");
    } catch {
      return value;
    }
  };
  const dark = () => (root.dataset.scheme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => (scheme.textContent = dark() ? "Light" : "Dark");
  const known = remember();
  if (known === "light" || known === "dark") root.dataset.scheme = known;
  scheme.hidden = false;
  scheme.addEventListener("click", () => {
    root.dataset.scheme = remember(dark() ? "light" : "dark") ?? (dark() ? "light" : "dark");
    name();
  });
  name();

  // Tables sort by a column: lines below a named one stay with it, average ranks stay last.
  const value = (cell) => {
    const text = (cell?.textContent ?? "").replaceAll(",", "").replaceAll("\u2212", "-").trim();
    const hours = text.match(/^(?:(\d+) h )?(\d+) (min|s)$/);
    if (hours) return 3600 * (hours[1] ?? 0) + hours[2] * (hours[3] === "s" ? 1 : 60);
    const number = Number.parseFloat(text);
    return Number.isNaN(number) ? text : number;
  };
  const compared = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  };
  const sort = (table, column, heading) => {
    const down = heading.ariaSort ? heading.ariaSort === "ascending" : heading.classList.contains("number");
    const groups = [];
    for (const row of table.tBodies[0].rows) {
      if (row.querySelector("th") || !groups.length) groups.push([]);
      groups.at(-1).push(row);
    }
    const rank = (group) => group[0].classList.contains("rank");
    const key = new Map(groups.map((group) => [group, value(group[0].cells[column])]));
    groups.sort((a, b) => rank(a) - rank(b) || (down ? -1 : 1) * compared(key.get(a), key.get(b)));
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.classList.add("sorted");
    table.tBodies[0].append(...groups.flat());
  };
  for (const button of document.querySelectorAll("thead button"))
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      sort(heading.closest("table"), heading.cellIndex, heading);
    });

  // Copies are in the order that the table has now.
  const written = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  const said = document.querySelector(".status");
  for (const button of document.querySelectorAll("button[data-copy]"))
    button.addEventListener("click", async () => {
      const form = button.dataset.copy;
      let text = button.dataset.text;
      if (text === undefined) {
        const figure = button.closest("figure");
        const texts = JSON.parse(figure.querySelector("script").textContent)[form];
        const rows = [...figure.querySelectorAll("tbody tr")].map((row) => texts.rows[row.dataset.row]);
        text = texts.before + rows.join("\n") + texts.after;
      }
      await written(text);
      const name = button.textContent;
      button.textContent = "Copied";
      said.textContent = `Copied${form ? ` as ${name}` : ""}`;
      setTimeout(() => (button.textContent = name), 1200);
    });
})();
