"use strict";
// Sorting, filters and columns for tables that are complete without them. The state stands behind
// `#?` in the address; every other address is that of a row, a task or a model.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filters");
  const status = document.getElementById("status");
  const boards = [...document.querySelectorAll("table.board")];
  const groups = [...document.querySelectorAll(".group")];
  const filters = ["data", "tag", "model", "can"];
  const order = new WeakMap();  // a row -> its place as the file has it: the exact order

  const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const rowsOf = (table) => [...table.tBodies[0].rows];
  const modelOf = (row) => row.cells[0].firstElementChild.textContent;
  const headersOf = (table) => [...table.tHead.rows[0].cells];

  // --- sorting

  const numberIn = (text) => {
    const value = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(value) ? null : value;
  };

  function sortTable(table, column, descending) {
    const rows = rowsOf(table);
    rows.forEach((row, i) => { if (!order.has(row)) order.set(row, i); });
    const isScore = column === 1;
    const keys = new Map(rows.map((row) => {
      const text = column ? row.cells[column].textContent.trim() : modelOf(row);
      const number = column ? numberIn(text) : null;
      return [row, { text, number, blank: text === "" || text === "-" }];
    }));
    // Best first is the order of the file, which knows more digits than the cells show.
    const best = table.classList.contains("lower") ? -1 : 1;
    rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x.blank !== y.blank) return x.blank ? 1 : -1;
      let apart = isScore ? best * (order.get(b) - order.get(a))
        : x.number !== null && y.number !== null ? x.number - y.number
        : x.text.localeCompare(y.text, "en", { numeric: true });
      if (descending) apart = -apart;
      return apart || order.get(a) - order.get(b);
    });
    table.tBodies[0].append(...rows);
    headersOf(table).forEach((header, i) => {
      if (i === column) header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
  }

  function restoreOrder(table) {
    const rows = rowsOf(table);
    if (rows.length && order.has(rows[0])) {
      table.tBodies[0].append(...rows.sort((a, b) => order.get(a) - order.get(b)));
    }
    headersOf(table).forEach((header) => header.removeAttribute("aria-sort"));
  }

  function addButtons(table) {
    for (const header of headersOf(table)) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
    }
  }

  // --- columns

  const atFirst = (table) => Number(/\bm(\d+)\b/.exec(table.dataset.first || table.className)[1]);

  function showColumns(table, shown) {
    table.dataset.first = table.dataset.first || table.className;
    table.classList.remove(`m${atFirst(table)}`);
    for (const row of table.rows) {
      [...row.cells].forEach((cell, i) => { cell.hidden = !shown.has(i); });
    }
  }

  const firstColumns = (table) => new Set([...headersOf(table).keys()].slice(0, atFirst(table)));

  // --- files of what is seen

  const cellsOf = (table) => [...table.rows].filter((row) => row.offsetParent).map((row) => (
    [...row.cells].filter((cell) => cell.offsetParent).map((cell) => (
      (cell.querySelector("button[popovertarget]") || cell).textContent.trim().replace(/\s+/g, " ")))));
  const csv = (rows) => rows.map((row) => row.map((text) => `"${text.replace(/"/g, '""')}"`).join(",")).join("\r\n");
  const markdown = ([head, ...rows]) => [head, head.map(() => "---"), ...rows]
    .map((row) => `| ${row.map((text) => text.replace(/[|\\]/g, "\\$&")).join(" | ")} |`).join("\n");

  function addTools(table, i) {
    const details = document.createElement("details");
    details.className = "tools";
    const summary = document.createElement("summary");
    summary.textContent = "Save";
    details.append(summary);
    for (const [name, suffix, form] of [["Save as CSV", "csv", csv], ["Save as Markdown", "md", markdown]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([form(cellsOf(table))], { type: "text/plain" }));
        link.download = `${table.id || `models-by-tasks-${i}`}.${suffix}`;
        link.click();
        URL.revokeObjectURL(link.href);
      });
      details.append(button, " ");
    }
    if (table.matches(".board") && headersOf(table).length > 2) {
      const more = headersOf(table).length - atFirst(table);
      summary.textContent = `Choose columns${more > 0 ? ` (${more} more)` : ""} or save`;
      details.addEventListener("toggle", () => summary.after(boxesOf(table)), { once: true });
    }
    table.parentElement.after(details);
  }

  function boxesOf(table) {
    const boxes = document.createElement("div");
    const shown = state().columns.get(table.id) || firstColumns(table);
    headersOf(table).forEach((header, i) => {
      if (i < 2) return;
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = shown.has(i);
      box.dataset.column = i;
      label.append(box, ` ${header.textContent}`);
      boxes.append(label);
    });
    boxes.addEventListener("change", () => {
      const chosen = [...boxes.querySelectorAll("input")].filter((box) => box.checked);
      const next = state();
      next.columns.set(table.id, new Set([0, 1, ...chosen.map((box) => Number(box.dataset.column))]));
      write(next);
      showColumns(table, next.columns.get(table.id));
    });
    return boxes;
  }

  // --- filters

  const wanted = (text) => text.split(",").map((word) => word.trim().toLowerCase()).filter(Boolean);

  function applyFilters(now) {
    const words = wanted(now.model);
    const verdicts = new Map();
    const fits = (name) => {
      if (!verdicts.has(name)) {
        const lower = name.toLowerCase();
        const named = !words.length || words.some((word) => lower.includes(word));
        const can = !now.can || (data.capabilities[name] || []).includes(now.can);
        verdicts.set(name, named && can);
      }
      return verdicts.get(name);
    };
    const narrow = Boolean(words.length || now.can);
    let tasks = 0;
    const models = new Set();
    for (const group of groups) {
      let any = false;
      for (const task of group.querySelectorAll(".task")) {
        const sets = [...task.querySelectorAll(".set")];
        for (const set of sets) set.hidden = Boolean(now.data) && set.dataset.data !== now.data;
        const left = sets.filter((set) => !set.hidden);
        // A task without scores has no set.
        let visible = !now.data || left.length > 0 || (!sets.length && group.dataset.group === now.data);
        visible = visible && (!now.tag || task.dataset.tags.split(" ").includes(now.tag));
        if (visible) {
          let rows = 0;
          for (const table of left.flatMap((set) => [...set.querySelectorAll("table.board")])) {
            for (const row of table.tBodies[0].rows) {
              const name = modelOf(row);
              const keep = fits(name);
              if (row.hidden === keep) row.hidden = !keep;
              if (keep) { rows += 1; models.add(name); }
            }
          }
          visible = rows > 0 || !narrow;
        }
        task.hidden = !visible;
        const entry = document.querySelector(`nav a[href="#${CSS.escape(task.id)}"]`);
        if (entry) entry.parentElement.hidden = !visible;
        tasks += visible;
        any = any || visible;
      }
      group.hidden = !any;
    }
    status.textContent = `${counted(tasks, "task")}, ${counted(models.size, "model")} with scores`;
  }

  // --- state in the address

  function state() {
    const given = new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : "");
    const now = { sorts: new Map(), columns: new Map() };
    for (const name of filters) now[name] = given.get(name) || "";
    for (const text of given.getAll("sort")) {
      const [id, column, way] = text.split("~");
      if (/^\d+$/.test(column || "")) now.sorts.set(id, [Number(column), way === "down"]);
    }
    for (const text of given.getAll("columns")) {
      const [id, list] = text.split("~");
      now.columns.set(id, new Set([0, 1, ...(list || "").split(".").map(Number)]));
    }
    return now;
  }

  function write(now) {
    const given = new URLSearchParams();
    for (const name of filters) if (now[name]) given.set(name, now[name]);
    for (const [id, [column, down]] of now.sorts) given.append("sort", `${id}~${column}~${down ? "down" : "up"}`);
    for (const [id, set] of now.columns) given.append("columns", `${id}~${[...set].filter((i) => i > 1).join(".")}`);
    history.replaceState(null, "", String(given) ? `#?${given}` : "#?");
  }

  function apply(now) {
    for (const name of filters) form.elements[name].value = now[name];
    for (const table of boards) {
      const sort = now.sorts.get(table.id);
      if (sort && sort[0] < headersOf(table).length) sortTable(table, ...sort);
      else if (table.tHead.querySelector("[aria-sort]")) restoreOrder(table);
      const columns = now.columns.get(table.id);
      if (columns) showColumns(table, columns);
      else if (table.dataset.first) showColumns(table, firstColumns(table));
    }
    applyFilters(now);
  }

  // --- addresses of rows

  const target = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));

  function follow() {
    document.querySelectorAll("[popover]:popover-open").forEach((card) => card.hidePopover());
    if (location.hash.startsWith("#?")) return apply(state());
    const place = location.hash.length > 1 ? target() : null;
    if (place && place.closest("[hidden]")) {
      apply({ sorts: new Map(), columns: new Map(), data: "", tag: "", model: "", can: "" });
      place.scrollIntoView();
    }
    return undefined;
  }

  function tell(card, row) {
    const here = card.querySelector(".here");
    const table = row.closest("table");
    const link = document.createElement("a");
    link.href = `#${row.id}`;
    link.textContent = "Address of this row";
    const score = `${headersOf(table)[1].textContent.trim()}: ${row.cells[1].textContent}`;
    const interval = row.cells[headersOf(table).findIndex((cell) => cell.textContent.startsWith("95"))];
    const section = row.closest(".task");
    const task = section.dataset.task;
    for (const where of card.querySelectorAll("dd small")) {
      const elsewhere = !where.textContent.slice(2, -1).split(", ").includes(task);
      where.parentElement.hidden = elsewhere;
      where.parentElement.previousElementSibling.hidden = elsewhere;
    }
    const data = [...section.querySelectorAll(".data li")].map((item) => item.textContent);
    here.replaceChildren(`${task}, ${score}${interval && interval.textContent ? ` (${interval.textContent})` : ""}. ${data.length === 1 ? `Data: ${data[0]}. ` : ""}`, link);
  }

  // --- what happens when

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const header = button && button.closest("table.board thead th");
    if (header) {
      const table = header.closest("table");
      const now = state();
      const column = header.cellIndex;
      const was = header.getAttribute("aria-sort");
      now.sorts.set(table.id, [column, was ? was === "ascending" : column > 0]);
      write(now);
      sortTable(table, ...now.sorts.get(table.id));
    } else if (button && button.hasAttribute("popovertarget")) {
      tell(document.getElementById(button.getAttribute("popovertarget")), button.closest("tr"));
    }
  });
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const now = state();
      for (const name of filters) now[name] = form.elements[name].value;
      write(now);
      applyFilters(now);
    }, 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("all").addEventListener("click", () => {
    history.replaceState(null, "", "#?");
    apply(state());
  });
  window.addEventListener("hashchange", follow);

  form.hidden = false;
  form.firstElementChild.open = !matchMedia("(max-width: 40rem)").matches;
  document.documentElement.classList.add("js");
  boards.forEach(addButtons);
  document.querySelector("nav details").open = matchMedia("(min-width: 100rem)").matches;
  [...boards, ...document.querySelectorAll(".overview table")].forEach(addTools);
  if (location.hash.startsWith("#?")) apply(state());
  else status.textContent = `${counted(document.querySelectorAll(".task").length, "task")}, ${counted(data.models, "model")}`;
})();
