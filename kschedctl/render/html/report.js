"use strict";
// Every text reaches the page by textContent: what a cluster says is never markup.
(() => {
  const collator = new Intl.Collator("en", { numeric: true });
  const STEP = 200;

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  const plain = (cell) => (typeof cell === "string" ? cell : cell.map((line) => line[0]).join(" "));
  const number = (text) => {
    const found = /^[^\d-]*(-?[\d,]*\.?\d+)/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) : NaN;
  };
  const english = (count) => count.toLocaleString("en");

  const contents = (cell) => {
    if (typeof cell === "string") return [cell];
    return cell.flatMap(([text, tone], i) => {
      const shown = tone === "plain" ? text : element("span", { class: tone }, text);
      return i ? [document.createElement("br"), shown] : [shown];
    });
  };

  const grid = (place) => {
    const data = JSON.parse(place.querySelector("script").textContent);
    const [tools, body, status] = [".tools", "tbody", ".status"].map((part) => place.querySelector(part));
    const heads = [...place.querySelectorAll("th")];
    const order = data.rows.map((_, i) => i);
    const greatest = data.bars.map((c) => Math.max(...data.rows.map((row) => number(plain(row[c])) || 0), 1));
    const open = new Set();
    let [texts, wanted, sorted, falling, folded, limit] = [null, "", -1, false, data.grouped >= 0, data.shown];

    const matching = () => {
      if (!wanted) return order;
      texts ??= data.rows.map((row) => row.map(plain).join("\n").toLowerCase());
      const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
      return order.filter((i) => words.every((word) => texts[i].includes(word)));
    };

    const inOrder = (rows) => {
      if (sorted < 0) return rows;
      const keys = new Map(rows.map((i) => [i, plain(data.rows[i][sorted])]));
      const numeric = data.columns[sorted][1];
      const compare = (a, b) => {
        if (!numeric) return collator.compare(keys.get(a), keys.get(b));
        const [x, y] = [number(keys.get(a)), number(keys.get(b))];
        return (Number.isNaN(x) ? -Infinity : x) - (Number.isNaN(y) ? -Infinity : y) || 0;
      };
      return [...rows].sort((a, b) => (falling ? compare(b, a) : compare(a, b)) || a - b);
    };

    const line = (i) => {
      const cells = data.rows[i].map((cell, c) => {
        const made = element("td", { class: c === data.grouped ? "grouping" : data.columns[c][1] ? "right" : false }, ...contents(cell));
        const bar = data.bars.indexOf(c);
        const value = bar < 0 ? NaN : number(plain(cell));
        if (value > 0) {
          const drawn = element("span", { class: "bar", "aria-hidden": "true" });
          drawn.style.width = `${(100 * value) / greatest[bar]}%`;
          made.append(drawn);
        }
        return made;
      });
      return element("tr", {}, ...cells);
    };

    const lines = (rows, key) => {
      const made = rows.slice(0, limit).map(line);
      if (rows.length > limit) {
        const more = element("button", { type: "button" }, `Show ${english(Math.min(STEP, rows.length - limit))} more`);
        more.addEventListener("click", () => { limit += STEP; lay(key); });
        made.push(element("tr", {}, element("td", { colspan: data.columns.length }, more)));
      }
      return made;
    };

    const groups = (rows) => {
      const found = new Map();
      for (const i of rows) {
        const key = plain(data.rows[i][data.grouped]);
        if (!found.has(key)) found.set(key, []);
        found.get(key).push(i);
      }
      return [...found].sort((a, b) => b[1].length - a[1].length).flatMap(([key, members]) => {
        const isOpen = open.has(key);
        const label = `${key || "—"} (${english(members.length)})`;
        const button = element("button", { type: "button", "aria-expanded": String(isOpen) }, label);
        button.addEventListener("click", () => { open[isOpen ? "delete" : "add"](key); lay(key); });
        button.dataset.key = key;
        const head = element("tr", { class: "group" }, element("td", { colspan: data.columns.length }, button));
        return isOpen ? [head, ...lines(members, key)] : [head];
      });
    };

    const lay = (focused) => {
      place.classList.toggle("folded", folded);
      const rows = inOrder(matching());
      body.replaceChildren(...(folded ? groups(rows) : lines(rows)));
      const all = english(data.rows.length);
      status.textContent = rows.length === data.rows.length ? (rows.length > 10 ? `${all} rows` : "") : `${english(rows.length)} of ${all} rows`;
      heads.forEach((head, c) => head.setAttribute("aria-sort", c !== sorted ? "none" : falling ? "descending" : "ascending"));
      if (focused !== undefined) [...body.querySelectorAll(".group button")].find((each) => each.dataset.key === focused)?.focus();
    };

    heads.forEach((head, c) => {
      const button = element("button", { type: "button" }, head.textContent);
      button.addEventListener("click", () => {
        [falling, sorted] = [sorted === c ? !falling : data.columns[c][1], c];
        lay();
      });
      head.replaceChildren(button);
      head.classList.toggle("grouping", c === data.grouped);
    });
    if (data.rows.length > 10) {
      const search = element("input", { type: "search", placeholder: "Filter by text", "aria-label": "Filter the rows by text" });
      let waiting = 0;
      search.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => { wanted = search.value; limit = data.shown; lay(); }, 80);
      });
      tools.append(search);
      tools.hidden = false;
    }
    if (folded) {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => { folded = box.checked; lay(); });
      tools.append(element("label", {}, box, ` Grouped by ${data.columns[data.grouped][0]}`));
      tools.hidden = false;
    }
    lay();
  };

  const copied = async (text, from) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(from);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
  };

  for (const place of document.querySelectorAll("[data-grid]")) grid(place);
  for (const button of document.querySelectorAll("button.copy")) {
    const source = button.previousElementSibling;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copied(source.textContent, source);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
