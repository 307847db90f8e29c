// What axe-core asks for and the theme leaves out: levels of headings, names of landmarks, and
// parts that scroll and can be reached by keyboard.
document.addEventListener("DOMContentLoaded", () => {
  const every = (selector, change) => document.querySelectorAll(selector).forEach(change)
  every(".caption[role=heading]", one => one.setAttribute("aria-level", "2"))
  every(".sidebar-drawer", one => one.setAttribute("aria-label", "Pages"))
  every(".toc-drawer", one => one.setAttribute("aria-label", "On this page"))
  every("pre, .table-wrapper, .text_html", one => { one.tabIndex = 0 })
  if (!document.querySelector("h1")) {
    const head = document.createElement("h1")
    head.textContent = document.title.split(" - ")[0]
    document.querySelector("article").prepend(head)
  }
})
