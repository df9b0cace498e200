"use strict";
// Every text reaches the page by textContent: what a cluster says is never markup.
(() => {
  const STEP = 200; // rows more, each time that they are asked for
  const AT_ONCE = 20; // rows that are laid out in a turn
  const SHORT = 60; // characters of a name that is not broken
  const LONG = 30; // characters of a text that may be broken anywhere
  const TURN = 8; // milliseconds of work before the page gets its turn
  const english = (count) => count.toLocaleString("en");
  const turn = () => new Promise((done) => setTimeout(done));

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  const live = document.querySelector("#live");
  const announce = (text) => {
    live.textContent = "";
    setTimeout(() => { live.textContent = text; }, 50);
  };

  // A cell is a text, or lines of [text, tone].
  const plain = (cell) => (typeof cell === "string" ? cell : cell.map((line) => line[0]).join(" "));
  const contents = (cell) => {
    if (typeof cell === "string") return [cell];
    return cell.flatMap(([text, tone], i) => {
      if (tone === "verbatim") return [element("details", { class: "said" }, element("summary", {}, "kube-scheduler's own message"), text)];
      const shown = tone === "plain" ? text : element("span", { class: tone }, text);
      return i ? [document.createElement("br"), shown] : [shown];
    });
  };
  const number = (text) => {
    const found = /^[^\d-]*(-?[\d,]*\.?\d+)/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) : -Infinity;
  };
  const natural = (text) => text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));

  // The place of each row in the order of a column, equal ones having the same.
  const ranks = (rows, column, numeric) => {
    const keys = rows.map((row) => (numeric ? number : natural)(plain(row[column])));
    if (numeric) return keys;
    const place = new Map([...new Set(keys)].sort((a, b) => (a < b ? -1 : 1)).map((key, i) => [key, i]));
    return keys.map((key) => place.get(key));
  };

  // What is looked for in each row, made in turns.
  const searched = async (rows) => {
    const texts = [];
    let start = performance.now();
    for (const row of rows) {
      texts.push(row.map(plain).join("\n").toLowerCase());
      if (performance.now() - start > TURN) {
        await turn();
        start = performance.now();
      }
    }
    return texts;
  };

  const grid = (place, data) => {
    const [tools, body, status] = [".tools", "tbody", ".status"].map((part) => place.querySelector(part));
    const heads = [...place.querySelectorAll("thead tr > *")];
    const ranked = new Map();
    const rank = (column) => {
      if (!ranked.has(column)) ranked.set(column, ranks(data.rows, column, data.columns[column][1]));
      return ranked.get(column);
    };
    const most = new Map(data.bars.map((column) => [column, Math.max(...rank(column), 1)]));
    const open = new Set();
    let [texts, wanted, sorted, falling, folded, limit] = [null, [], -1, false, data.grouped >= 0, data.shown];
    let [order, laid, only] = [data.rows.map((_, i) => i), 0, -1];

    const matching = () => (only >= 0 ? [only] : wanted.length ? order.filter((i) => wanted.every((word) => texts[i].includes(word))) : order);
    const arrange = () => {
      const [places, way] = [rank(sorted), falling ? -1 : 1];
      order.sort((a, b) => (places[a] === places[b] ? a - b : places[a] < places[b] ? -way : way));
    };

    const cell = (content, column) => {
      const [name, right, keep] = data.columns[column];
      const size = plain(content).length;
      const text = keep && size <= SHORT ? "keep" : size > LONG ? "long" : false;
      const look = column === data.grouped ? "grouping" : right ? "right" : text;
      const made = element("td", { class: look, role: "cell", "data-name": name }, ...contents(content));
      const value = most.has(column) ? number(plain(content)) : 0;
      if (value > 0) {
        const drawn = element("span", { class: "bar", "aria-hidden": "true" });
        drawn.style.width = `${(100 * value) / most.get(column)}%`;
        made.append(drawn);
      }
      return made;
    };
    const line = (i) => element("tr", { role: "row" }, ...data.rows[i].map(cell));
    const across = (button, look) =>
      element("tr", { class: look, role: "row" }, element("td", { colspan: data.columns.length, role: "cell" }, button));

    // Rows are made when their turn comes.
    const lines = (rows) => {
      const made = rows.slice(0, limit).map((i) => () => line(i));
      if (rows.length > limit) made.push(() => moreThan(rows));
      return made;
    };
    const moreThan = (rows) => {
      const button = element("button", { type: "button" }, `Show ${english(Math.min(STEP, rows.length - limit))} more`);
      button.addEventListener("click", () => {
        const next = [...body.children].indexOf(button.closest("tr"));
        limit += STEP;
        lay(() => body.children[next]?.querySelector("td:not(.grouping)"));
      });
      return across(button, false);
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
        const head = () => {
          const button = element("button", { type: "button", "aria-expanded": String(isOpen) }, `${key || "—"} (${english(members.length)})`);
          button.addEventListener("click", () => {
            open[isOpen ? "delete" : "add"](key);
            lay(() => [...body.querySelectorAll(".group button")].find((each) => each.dataset.key === key));
          });
          button.dataset.key = key;
          return across(button, "group");
        };
        return isOpen ? [head, ...lines(members)] : [head];
      });
    };

    // The first rows are there at once, the others in turns, unless all are laid out anew meanwhile.
    const fill = async (rows, focused) => {
      const mine = ++laid;
      let keep = focused;
      for (let from = 0; from === 0 || from < rows.length; from += AT_ONCE) {
        if (from) await turn();
        if (mine !== laid) return;
        if (!from) body.replaceChildren();
        body.append(...rows.slice(from, from + AT_ONCE).map((make) => make()));
        const found = keep?.();
        if (found) {
          if (found.localName === "td") found.setAttribute("tabindex", "-1");
          found.focus();
          keep = null;
        }
      }
    };

    const lay = (focused) => {
      place.classList.toggle("folded", folded);
      const rows = matching();
      fill(folded ? groups(rows) : lines(rows), focused);
      const all = english(data.rows.length);
      const told = rows.length < data.rows.length ? `${english(rows.length)} of ${all} rows` : rows.length > 10 ? `${all} rows` : "";
      if (status.textContent !== told) status.textContent = told;
      heads.forEach((head, c) => head.hasAttribute("aria-sort") && head.setAttribute("aria-sort", c !== sorted ? "none" : falling ? "descending" : "ascending"));
    };

    const sortable = () => heads.forEach((head, c) => {
      if (!head.textContent) return;
      const button = element("button", { type: "button" }, ...head.childNodes);
      button.addEventListener("click", () => {
        [falling, sorted] = [sorted === c ? !falling : data.columns[c][1], c];
        arrange();
        lay();
      });
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
    });

    const filterable = () => {
      const search = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
      let [waiting, made] = [0, null];
      const prepare = () => { made ??= searched(data.rows).then((found) => { texts = found; }); return made; };
      search.addEventListener("focus", prepare, { once: true });
      search.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(async () => {
          await prepare();
          wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
          [limit, only] = [data.shown, -1];
          lay();
        }, 120);
      });
      tools.append(element("label", {}, "Filter rows", search));
      tools.hidden = false;
    };

    if (data.rows.length > 1) sortable();
    heads.forEach((head, c) => head.classList.toggle("grouping", c === data.grouped));
    if (data.rows.length > 10) filterable();
    if (folded) {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => { folded = box.checked; lay(); });
      tools.append(element("label", {}, box, `Grouped by ${data.columns[data.grouped][0]}`));
      tools.hidden = false;
    }
    // The row of a node alone, which the map asks for; until something is filtered again.
    place.showRow = (name) => {
      only = data.rows.findIndex((row) => plain(row[1]) === name);
      const wasFolded = folded;
      folded = false;
      lay(() => body.querySelector("td:not(.grouping)"));
      folded = wasFolded;
      place.scrollIntoView({ block: "nearest" });
      if (tools.querySelector(".all")) return;
      const all = element("button", { type: "button", class: "all" }, "Show all nodes");
      all.addEventListener("click", () => { only = -1; all.remove(); lay(); });
      tools.append(all);
      tools.hidden = false;
    };

    if (data.rows.length > data.shown || folded) lay();
    else if (data.rows.length > 10) status.textContent = `${english(data.rows.length)} rows`;
  };

  // What matrix.py packs: JSON in gzip in base64.
  const unpacked = (script) => {
    const bytes = Uint8Array.from(atob(script.textContent), (each) => each.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };

  // Rows of cells, from the distinct cells of each column; names and zones are those of the nodes.
  const rowsOf = ({ at, cells }, nodes) => {
    const [group, ...others] = cells.map(([distinct, of]) => {
      const made = distinct.map((cell) => (typeof cell === "string" ? cell : [cell]));
      return of.map((i) => made[i]);
    });
    return at.map((node, row) => [group[row], ...nodes[node], ...others.map((column) => column[row])]);
  };

  const matrices = (place) => {
    let nodes = null;
    for (const matrix of place.querySelectorAll("details")) {
      matrix.addEventListener("toggle", async () => {
        const [waiting, table] = [matrix.querySelector(".waiting"), matrix.querySelector(".grid")];
        nodes ??= unpacked(place.querySelector("[data-nodes]"));
        const data = await unpacked(matrix.querySelector("script"));
        grid(table, { ...data, rows: rowsOf(data, await nodes) });
        table.hidden = false;
        waiting.remove();
      }, { once: true });
    }
  };

  // A cell a node; its colour says what refuses it. Entries of the legend dim all other cells.
  const nodeMap = (place) => {
    const { legend, places, best } = JSON.parse(place.querySelector("script").textContent);
    const [area, status] = [place.querySelector(".places"), place.querySelector(".status")];
    const [chosen, stars] = [new Set(), new Set(best)];
    const row = (name) => document.querySelector(".nodes-by-plugin [data-grid]")?.showRow(name);
    const cells = [];
    for (const [title, nodes] of places) {
      const group = element("div", { class: "cells", role: "group", "aria-label": `${title}: ${english(nodes.length)} nodes` });
      for (const [name, key] of nodes) {
        const about = `${name}: ${legend[key][0]}`;
        const cell = element("button", { type: "button", class: `cell ${legend[key][2]}${stars.has(name) ? " best" : ""}`,
          title: about, "aria-label": about, tabindex: "-1" });
        cell.dataset.key = key;
        cell.dataset.name = name;
        cells.push(cell);
        group.append(cell);
      }
      area.append(element("div", { class: "place" }, element("p", {}, `${title} `, element("span", { class: "faint" }, english(nodes.length))), group));
    }
    place.classList.toggle("dense", cells.length > 1000);
    cells[0]?.setAttribute("tabindex", "0");
    const tell = () => {
      const shown = cells.filter((cell) => !cell.classList.contains("dim")).length;
      status.textContent = shown < cells.length ? `${english(shown)} of ${english(cells.length)} nodes` : "A node opens its row below.";
    };
    area.addEventListener("click", ({ target }) => { if (target.dataset.name) row(target.dataset.name); });
    area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = step && cells[cells.indexOf(event.target) + step];
      if (!next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
    for (const entry of place.querySelectorAll("[data-key]:not(.cell)")) {
      const button = element("button", { type: "button", "aria-pressed": "false" }, ...entry.childNodes);
      button.addEventListener("click", () => {
        const key = entry.dataset.key;
        chosen[chosen.has(key) ? "delete" : "add"](key);
        button.setAttribute("aria-pressed", String(chosen.has(key)));
        for (const cell of cells) cell.classList.toggle("dim", chosen.size > 0 && !chosen.has(cell.dataset.key));
        tell();
      });
      entry.replaceChildren(button);
    }
    tell();
  };

  // Who goes to a part that is folded wants to see it.
  const unfold = () => document.getElementById(location.hash.slice(1))?.closest("details.part")?.setAttribute("open", "");
  addEventListener("hashchange", unfold);
  unfold();

  addEventListener("beforeprint", () => document.querySelectorAll("details.part, details.said").forEach((part) => { part.open = true; }));

  const copied = async (text, from) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(from);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if (!document.execCommand("copy")) return false;
      getSelection().removeAllRanges();
    }
    return true;
  };

  // Who goes through the page by keyboard stops at what can be scrolled, and nowhere else.
  const stops = new ResizeObserver((changes) => {
    for (const place of new Set(changes.map(({ target }) => target.closest("[tabindex], [data-still]")))) {
      const scrolls = place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight;
      place.toggleAttribute("data-still", !scrolls);
      if (scrolls) place.setAttribute("tabindex", "0");
      else if (place !== document.activeElement) place.removeAttribute("tabindex");
    }
  });
  for (const place of document.querySelectorAll(".scroll, figure, .command pre")) {
    stops.observe(place);
    for (const part of place.children) if (part.localName !== "p") stops.observe(part);
  }

  for (const place of document.querySelectorAll("[data-grid]")) grid(place, JSON.parse(place.querySelector("script").textContent));
  for (const place of document.querySelectorAll("[data-matrices]")) matrices(place);
  for (const place of document.querySelectorAll("[data-map]")) nodeMap(place);
  for (const button of document.querySelectorAll("button.copy")) {
    const source = button.previousElementSibling;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const done = await copied(source.textContent, source);
      announce(done ? "Copied" : "Not copied: the text is selected");
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
