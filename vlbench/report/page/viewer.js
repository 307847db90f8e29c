"use strict";
// The examples that pass the filters, a page of cards at a time: no others are in the document.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [form, cards, status, previous, next] = ["filters", "cards", "status", "previous", "next"]
    .map((id) => document.getElementById(id));
  const MOST = 24, MOST_TARGETS = 50;
  let passed = data.examples;
  let first = 0;

  const gain = (answer) => (data.lower ? 1 - answer.credit : answer.credit);
  const verdict = (answer) => (gain(answer) >= 1 ? "right" : gain(answer) <= 0 ? "wrong" : "part");
  const lead = ({ answers: [own, other] }) => gain(own) - gain(other);
  const compared = { differs: (one) => lead(one) !== 0, better: (one) => lead(one) > 0, worse: (one) => lead(one) < 0 };
  const targets = [...new Set(data.examples.map((one) => one.target))].sort();

  function add(parent, tag, text = "", name = "") {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = name;
    parent.append(element);
    return element;
  }

  function card(one) {
    const article = document.createElement("article");
    article.className = verdict(one.answers[0]);
    one.images.forEach(({ place, text }) => {
      const image = add(article, "img");
      image.alt = `image of ${one.id}`;
      image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < 100));
      const content = document.getElementById(`image-${place}`);
      if (content) image.src = content.textContent;
      if (text) add(article, "p", text);
    });
    add(article, "h2", one.id);
    if (one.text) add(article, "p", one.text);
    const [asked] = one.answers.flatMap(({ replies }) => replies);
    if (asked) asked.options.forEach((option) => add(article, "p", option, "option"));
    const facts = add(article, "dl");
    if (one.target) {
      add(facts, "dt", "right answer");
      add(facts, "dd", one.target);
    }
    one.answers.forEach((answer, i) => {
      add(facts, "dt", data.models[i]);
      const said = add(facts, "dd", `${answer.prediction || (one.target ? "no single answer" : "")} `);
      if (answer.trials > 1 && answer.said) said.append(`(${answer.said} of ${answer.trials}) `);
      const word = verdict(answer);
      add(said, "span", word === "part" ? `credit ${Number(answer.credit.toPrecision(3))}` : word, `badge ${word}`);
      answer.replies.forEach(({ reply, unread, options }) => {
        const kept = add(facts, "dd", "", "reply");
        const order = options.join() === asked.options.join() ? "" : ` to ${options.join(", ")}`;
        add(kept, "q", reply);
        kept.append(`${order}${unread && ` (${unread})`}`);
      });
    });
    return article;
  }

  function show() {
    cards.replaceChildren(...passed.slice(first, first + MOST).map(card));
    const last = Math.min(first + MOST, passed.length);
    const count = passed.length.toLocaleString("en");
    status.textContent = passed.length ? `${first + 1} to ${last} of ${count}` : "no example passes the filters";
    previous.disabled = !first;
    next.disabled = last >= passed.length;
  }

  function filter() {
    const { show: shown, target, text } = form.elements;
    const words = text.value.trim().toLowerCase();
    const compare = compared[shown.value];
    const textsOf = (one) => [one.id, one.text, one.target, ...one.images.map(({ text: own }) => own), ...one.answers.flatMap((answer) => [answer.prediction, ...answer.replies.map(({ reply }) => reply)])];
    passed = data.examples.filter((one) => (
      (compare ? compare(one) : !shown.value || verdict(one.answers[0]) === shown.value)
      && (!target.value || one.target === targets[target.value])
      && (!words || textsOf(one).some((own) => own.toLowerCase().includes(words)))));
    first = 0;
    show();
  }

  function turn(pages) {
    const place = first + pages * MOST;
    if (place < 0 || place >= passed.length) return;
    first = place;
    show();
    window.scrollTo(0, 0);
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select")) return;
    if (event.key === "ArrowLeft") turn(-1);
    if (event.key === "ArrowRight") turn(1);
    if (event.key !== "/") return;
    event.preventDefault();
    form.firstElementChild.open = true;
    form.elements.text.focus();
  });

  targets.forEach((target, i) => { add(form.elements.target, "option", target || "none").value = i; });
  form.elements.target.parentElement.hidden = targets.length < 2 || targets.length > MOST_TARGETS;
  form.firstElementChild.open = !matchMedia("(max-width: 40rem)").matches;
  document.addEventListener("DOMContentLoaded", show);  // with the images that were not read yet
  show();
})();
