// Formulas of the site: what Markdown left as \(...\) and \[...\] is set by KaTeX 0.19.1, which is kept beside this file.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const text = element.textContent;
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
});
