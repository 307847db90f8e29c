"use strict";
const form = document.getElementById("sheet");
const lines = [...form.querySelectorAll("fieldset")];
const answer = (line) => line.querySelector("input:checked")?.value ?? "";
const cell = (text) => `"${text.replaceAll('"', '""')}"`;

function tell() {
  const left = lines.filter((line) => !answer(line)).length;
  document.getElementById("left").value = left ? `${left} questions have no answer yet` : "complete";
}

function save() {
  const rows = lines.map((line) => [...JSON.parse(line.dataset.cells), answer(line)]);
  const table = [JSON.parse(form.dataset.columns), ...rows];
  const text = table.map((row) => row.map(cell).join(",") + "\r\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  link.download = `${form.dataset.name}.csv`;
  link.click();
}

form.addEventListener("change", tell);
document.getElementById("save").addEventListener("click", save);
tell();
